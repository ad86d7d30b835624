"""Reading: tables, public data sets and synthetic data become columns of items. Nothing learned, no torch."""
