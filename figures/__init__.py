"""The pictures of the proof pages, one module per figure: ``data()`` computes, ``draw(ax, data)`` draws.

``python -m figures`` writes each as PNG into ``proofs/figures``, and the data of all to ``data.jsonl`` beside them.
"""
