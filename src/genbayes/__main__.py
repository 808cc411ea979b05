"""`python -m genbayes`, where the command itself is not on the path."""

from .cli import main

if __name__ == "__main__":
    main()
