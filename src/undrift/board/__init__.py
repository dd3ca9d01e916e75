"""`undrift board`: all runs below a folder, live, in a browser. It reads what runs write, and never writes there."""
