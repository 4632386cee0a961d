#!/bin/sh
# Starts this site, which runs until it is stopped with Ctrl-C.
cd -- "$(dirname -- "$0")" || exit 1
exec fedloom deploy client .
