"""Sparse rows for the suite that every kind of rows passes."""

from scipy.sparse import csr_array

from dperm.engine.sparse.rows import SparseRows

name = "sparse"
native = csr_array


def rows(X, y, *, row_map, n_rows, mask=None):
    return SparseRows(csr_array(X), y, row_map=row_map, n_rows=n_rows, mask=mask)
