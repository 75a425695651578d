//! What is kept from the import on: nothing can be imported any more when the last objects of a program are collected.

use std::ffi::CString;

use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

struct Kept {
    /// The exceptions and the records of `fairlock/*.py`, by their names.
    classes: Py<PyDict>,
    /// The variables of the module `sys`.
    sys: Py<PyDict>,
}

static KEPT: PyOnceLock<Kept> = PyOnceLock::new();

/// When the module is imported.
pub(crate) fn keep(py: Python<'_>) -> PyResult<()> {
    let classes = PyDict::new(py);
    for module in ["fairlock._errors", "fairlock._state"] {
        classes.update(py.import(module)?.dict().as_mapping())?;
    }
    let _ = KEPT.set(py, Kept { classes: classes.unbind(), sys: py.import("sys")?.dict().unbind() });
    Ok(())
}

/// An object of this class of `fairlock/*.py`.
pub(crate) fn make<'py>(
    py: Python<'py>,
    class: &str,
    arguments: impl PyCallArgs<'py>,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let kept = KEPT.get(py).expect("the import of the module has set it");
    kept.classes.bind(py).as_any().get_item(class)?.call(arguments, Some(fields))
}

/// A `RuntimeWarning` where an object is dropped, which may happen because of an exception, and an event for the logger.
/// CPython 3.9 crashes in a warning that comes after the end of the module `sys`.
pub(crate) fn warn(text: &str) {
    let _ = Python::try_attach(|py| {
        let modules = KEPT.get(py).and_then(|kept| kept.sys.bind(py).get_item("modules").ok().flatten());
        if modules.is_none_or(|modules| modules.is_none()) {
            return;
        }
        let under_way = PyErr::take(py);
        let message = CString::new(text.replace('\0', "")).unwrap_or_default();
        if let Err(error) = PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &message, 1) {
            error.write_unraisable(py, None);
        }
        if let Some(error) = under_way {
            error.restore(py);
        }
        // Python shows a warning once for each line, and where a filter makes an error of it, only as one that is ignored.
        tracing::error!("{text}");
    });
}
