"""Scripts that the Python of another tool's environment runs; none of them imports dperm, but ``run_dperm``.

``serving.py`` is the program. A module ``run_NAME`` has what it asks of the tool:

``train(X, y, job)``
    Fit one model and return a function from rows to the probability of the label 1, or to numbers.
``releases(X, y, job)``
    Fit ``job["runs"]`` models on a tiny table, each with randomness of its own: what each of them publishes, as rows of
    a matrix, and the budget that the tool itself states for one fit.
"""
