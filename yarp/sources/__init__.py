"""Stable reads of stores that other programs write."""
