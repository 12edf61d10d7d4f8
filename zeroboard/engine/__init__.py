"""The basement: everything that imports torch. Runs in processes of its own, `python -m zeroboard.engine VERB`."""
