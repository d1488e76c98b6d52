"""`python -m deepband` is `deepband`."""

from deepband.cli import main

main()
