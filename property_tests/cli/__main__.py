"""``python -m frontier_oracle.property_tests.cli``: the command line of a checkout that is not installed."""

from frontier_oracle.property_tests.cli import main

if __name__ == "__main__":
    main()
