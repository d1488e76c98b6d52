"""Support of scikit-learn's callbacks, which exist from version 1.9 on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef] # its replacement
        """Does nothing in versions of scikit-learn without callbacks."""

    def with_callbacks(method: Any) -> Any:
        return method


__all__ = ["CallbackSupportMixin", "root_task", "task", "with_callbacks"]


@contextmanager
def root_task(estimator: Any, subtasks: int, **data: Any) -> Iterator[Any]:
    """Report the fit of an estimator. Yields its callback context, or None without callbacks."""
    if not hasattr(estimator, "_init_callback_context"):
        yield None
        return
    context = estimator._init_callback_context(max_subtasks=subtasks)
    context.call_on_fit_task_begin(estimator=estimator, **data)
    yield context
    context.call_on_fit_task_end(estimator=estimator, **data)


@contextmanager
def task(
    parent: Any, name: str, estimator: Any, *, within: Any = None, **settings: Any
) -> Iterator[Any]:
    """Report a subtask of `parent`, unless that is None. `within` is an estimator that is fitted in
    it and reports itself; `data` is what it is fitted on. Yields the subtask's context."""
    data = settings.pop("data", {})
    if parent is None:
        yield None
        return
    context = parent.subcontext(task_name=name, **settings)
    with ExitStack() as stack:
        if within is not None:
            stack.enter_context(context.propagate_callback_context(within))
        context.call_on_fit_task_begin(estimator=estimator, **data)
        yield context
    context.call_on_fit_task_end(estimator=estimator, **data)
