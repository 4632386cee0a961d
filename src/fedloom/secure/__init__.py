"""Secure sums: the server learns what clients' rows add up to, and no row.

``quantise`` makes integers of rows, ``client`` and ``server`` are the two halves of a round with masks, and ``ckks``
adds encrypted rows.
"""
