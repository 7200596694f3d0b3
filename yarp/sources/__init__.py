"""Stable reads of stores that others write, and what importers say of them.

`facts`: what an importer yields. `importers`: how it declares itself, and the item it reads.
`jsonl` and `sqlite`: reading a file that an agent may be writing, without touching it; `values`:
the JSON in its lines. `walk` and `beneath`: finding and opening it below a root, without links.
"""
