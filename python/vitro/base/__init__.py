"""What every other package stands on: the extension module, processes, terminals, files."""
