//! `sum` of Kubernetes' list library for CEL (`k8s.io/apiserver/pkg/cel/library/lists.go`), of integers.

use cel::common::types::{CelInt, CelList};
use cel::{DeclarationError, Env, ExecutionError};

/// Registers the function.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_member_overload!(env, fn sum: (CelList) -> Result<CelInt>)
}

fn sum(list: &CelList<'_>) -> Result<CelInt, ExecutionError> {
    let numbers = list.inner().iter().map(|item| item.downcast_ref::<CelInt>().map(|number| *number.inner()));
    let sum: Option<i64> = numbers.sum();
    sum.map(CelInt::from).ok_or_else(|| ExecutionError::function_error("sum", "an item is no integer"))
}
