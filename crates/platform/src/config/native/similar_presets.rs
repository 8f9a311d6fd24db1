//! Which presets have what a platform leaves out: efficiencies of kernels, a communication library.

use super::{load, presets};
use crate::platform::{Like, Platform};
use device::compute::{Compute, Efficiency};
use std::path::PathBuf;

/// A preset, as far as it can stand in for what another platform leaves out.
#[derive(Clone, Debug)]
pub struct Donor {
    preset: String,
    npu: String,
    peak: f64,
    /// Kernels have efficiencies that were fitted on this NPU.
    kernels: bool,
    /// Dimensions that its library is for; 0 without one.
    library: usize,
}

/// Peaks that differ by more are those of other NPUs.
const ALIKE: f64 = 1.6;

/// The presets in the folders of `search` that have something to give.
pub fn donors(search: &[PathBuf]) -> Vec<Donor> {
    let read = |name: String| {
        let platform = load(&name, search).ok()?;
        let donor = Donor {
            npu: platform.npu.name.clone(),
            peak: platform.npu.peak?.0 as f64,
            kernels: efficiency(&platform)
                .is_some_and(|efficiency| efficiency != Efficiency::default())
                && platform.npu.fitted_on.is_none(),
            library: platform.library.as_ref().map_or(0, |_| platform.sizes().len()),
            preset: name,
        };
        (donor.kernels || donor.library > 0).then_some(donor)
    };
    presets(search).into_iter().filter_map(read).collect()
}

/// The donors nearest to `platform`: NPUs of that name, else of about its peak.
pub fn like(platform: &Platform, donors: &[Donor]) -> Like {
    let dims = platform.sizes().len();
    let kernels = donors.iter().filter(|donor| donor.kernels);
    let libraries = donors.iter().filter(|donor| donor.library == dims);
    Like { compute: nearest(platform, kernels), library: nearest(platform, libraries) }
}

fn nearest<'d>(platform: &Platform, donors: impl Iterator<Item = &'d Donor>) -> Option<String> {
    let peak = platform.npu.peak.map(|peak| peak.0 as f64)?;
    let first = |name: &str| {
        name.to_lowercase().split(['-', ' ', '_']).next().unwrap_or_default().to_string()
    };
    let name = first(&platform.npu.name);
    let named = |donor: &Donor| !name.is_empty() && first(&donor.npu) == name;
    let apart = |donor: &Donor| (donor.peak / peak).max(peak / donor.peak);
    let fits = donors.filter(|donor| named(donor) || apart(donor) <= ALIKE);
    // Among equals, the one that is called like its NPU, `dgx-h100`, not like a cloud's instances
    // of it.
    let called = |donor: &Donor| donor.preset.contains(&first(&donor.npu));
    let order = |donor: &&Donor| {
        let distance = (apart(donor) * 1e6) as u64;
        (!named(donor), distance, !called(donor), donor.preset.len(), donor.preset.clone())
    };
    let text = |donor: &Donor| match named(donor) {
        true => donor.preset.clone(),
        false => format!("{} (of {}, which has about this peak)", donor.preset, donor.npu),
    };
    fits.min_by_key(order).map(text)
}

fn efficiency(platform: &Platform) -> Option<Efficiency> {
    match &platform.npu.compute {
        Compute::Roofline(roofline) => Some(roofline.efficiency),
        _ => None,
    }
}
