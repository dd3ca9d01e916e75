"""The sub-commands. Each module is opened when its command is called, so that help and bad flags answer at once."""
