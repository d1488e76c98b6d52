"""`python -m deepband` is `deepband`."""

from deepband.interfaces.cli import main

main()
