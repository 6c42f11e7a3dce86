"""Private choice of settings: the scikit-learn search whose cost is counted."""

from dperm.estimators.search.private_search import PrivateSearchCV

__all__ = ["PrivateSearchCV"]
