//! Overrides that keys share. Most keys with overrides have those of a few plans, and equal ones are kept once.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidegate_core::rules::{Override, OverrideList};

/// The largest number of overrides.
pub(super) const NUMBER_MAX: u32 = (1 << 28) - 1;
/// What overrides take, besides themselves and their texts.
const SHARED_BYTES: usize = 128;

/// The overrides of the keys of a shard. Equal ones are kept once.
#[derive(Default)]
pub(super) struct SharedOverrides {
    /// By their positions, with the number of keys that have them. `None` if the position is free.
    all: Vec<Option<(Arc<OverrideList>, usize)>>,
    positions: HashMap<Arc<OverrideList>, usize, RandomState>,
    free: Vec<usize>,
    /// The memory of all.
    pub bytes: usize,
}

impl SharedOverrides {
    /// The overrides with a number. `None` for 0.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Arc<OverrideList>> {
        let position = (number as usize).checked_sub(1)?;
        self.all[position].as_ref().map(|(overrides, _)| overrides)
    }

    /// Adds the overrides of a key. Returns their number: their position plus 1.
    pub fn add(&mut self, overrides: Arc<OverrideList>) -> u32 {
        let position = match self.positions.get(&overrides) {
            Some(position) => *position,
            None => {
                let position = self.free.pop().unwrap_or_else(|| {
                    self.all.push(None);
                    self.all.len() - 1
                });
                self.bytes += shared_bytes(&overrides);
                self.positions.insert(Arc::clone(&overrides), position);
                self.all[position] = Some((overrides, 0));
                position
            }
        };
        if let Some((_, keys)) = &mut self.all[position] {
            *keys += 1;
        }
        // A shard has far fewer positions than this: each takes more than a hundred bytes.
        u32::try_from(position + 1).unwrap_or(NUMBER_MAX).min(NUMBER_MAX)
    }

    /// Removes the overrides of a key.
    pub fn release(&mut self, number: u32) {
        let Some(position) = (number as usize).checked_sub(1) else { return };
        let Some((overrides, keys)) = &mut self.all[position] else { return };
        *keys -= 1;
        if *keys == 0 {
            self.bytes -= shared_bytes(overrides);
            self.positions.remove(overrides);
            self.all[position] = None;
            self.free.push(position);
        }
    }
}

fn shared_bytes(overrides: &OverrideList) -> usize {
    let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
    let one = |one: &Override| {
        let texts = [&one.limit_name, &one.tier, &one.author, &one.note];
        texts.into_iter().map(text).sum::<usize>() + size_of_val(one.previous.as_slice())
    };
    SHARED_BYTES
        + size_of_val(overrides)
        + size_of_val(&**overrides)
        + overrides.iter().map(one).sum::<usize>()
}
