"""The pictures of the proof pages, one module per figure: ``data()`` computes, ``draw(ax, data)`` draws.

``python -m figures`` writes each as PNG, with its data as CSV, into ``proofs/figures``.
"""
