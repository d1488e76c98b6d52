"""Where jobs run: in this process, or in others."""
