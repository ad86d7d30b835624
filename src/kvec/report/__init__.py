"""Reporting: metrics, curves, figures and the HTML report. No torch."""
