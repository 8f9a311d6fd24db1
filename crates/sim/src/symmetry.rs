//! placeholder
use crate::executor::{Folding, Lowering, Settings};
use crate::platform::Platform;
use crate::run::BackendKind;
use graph::Workload;
/// Classes.
#[derive(Clone, Debug)]
pub struct Classes { /// f
    pub folding: Folding, /// r
    pub reason: String }
/// Finds.
pub fn find(workload: &Workload, _: &Platform, _: &Settings, _: &dyn Lowering, _: BackendKind) -> Classes {
    Classes { folding: Folding::none(workload.ranks.len() as u32), reason: String::new() }
}
