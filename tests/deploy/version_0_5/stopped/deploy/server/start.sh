#!/bin/sh
# Starts the server, which runs until it is stopped with Ctrl-C.
cd -- "$(dirname -- "$0")" || exit 1
exec fedloom deploy server .
