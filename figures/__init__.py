"""The pictures of the proof pages, one module per figure: ``data()`` computes, ``draw(ax, data)`` draws. ``measured`` holds a family.

``python -m figures`` writes each as PNG into ``proofs/figures``, and the data of all to ``data.jsonl`` beside them.
"""
