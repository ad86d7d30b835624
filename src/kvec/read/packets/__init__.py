"""Captures and interfaces: packets become flows, flows become items, and names that were given in the clear labels."""
