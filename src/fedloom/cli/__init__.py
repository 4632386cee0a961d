"""The command line. Modules import the library inside their commands, so that ``--help`` is instant."""
