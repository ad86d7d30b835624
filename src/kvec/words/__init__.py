"""The words every room speaks: items, schema, settings. Standard library only."""
