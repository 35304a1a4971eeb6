"""`python -m planformer`, also under torchrun."""

from planformer.cli.main import main

if __name__ == "__main__":
    main()
