//! What `floe run` replays one after the other: pictures of a file, a folder or a video, or one set of arrays.

use crate::{
    inputs::{self, Input, Source},
    session::Session,
};
use anyhow::Result;
#[cfg(feature = "pictures")]
use {
    crate::{
        pictures::{self, Picture, Place, Stream},
        usage::Usage,
    },
    floe_engine::plan::format::Direction,
};

/// The replays to make.
pub(super) struct Shots {
    /// Every input but the one that changes.
    fixed: Vec<Input>,
    #[cfg(feature = "pictures")]
    moving: Option<Moving>,
    /// How often everything is gone through again.
    rounds: u32,
}

/// One replay.
pub(super) struct Shot {
    /// The picture's name.
    pub(super) name: Option<String>,
    /// What changes.
    pub(super) input: Option<Input>,
    #[cfg(feature = "pictures")]
    pub(super) shown: Option<(Picture, Place)>,
}

#[cfg(feature = "pictures")]
struct Moving {
    source: Source,
    binding: usize,
    stream: Stream,
}

impl Shots {
    /// Opens the pictures, and gathers contents of the other inputs.
    ///
    /// # Errors
    /// Those of [`inputs::gather`], and where several inputs are given pictures.
    pub(super) fn open(session: &Session<'_, '_>, sources: &[Source], seed: Option<u64>, rounds: u32) -> Result<Self> {
        #[cfg(feature = "pictures")]
        {
            let mut moving: Option<Moving> = None;
            for source in sources {
                let bindings = session.bindings(Direction::Input);
                // An unknown name is told by what gathers.
                let Some((number, binding)) = bindings.iter().find(|(_, binding)| binding.name == source.name) else {
                    continue;
                };
                let Some(stream) = inputs::of(source, Stream::open(&source.file))? else { continue };
                inputs::of(source, pictures::frame_of(binding))?;
                // The same input twice is told by what gathers.
                if let Some(Moving { source: first, .. }) =
                    moving.as_ref().filter(|first| first.source.name != source.name)
                {
                    let both = format!("'{}' and '{}'", first.name, source.name);
                    return Err(Usage::new(format!(
                        "inputs {both} are both given pictures: give all but one as .npy files"
                    ))
                    .into());
                }
                moving = Some(Moving { source: source.clone(), binding: *number, stream });
            }
            let binding = moving.as_ref().map(|moving| moving.binding);
            let fixed = inputs::gather_except(session, sources, seed, binding)?;
            Ok(Self { fixed, moving, rounds })
        }
        #[cfg(not(feature = "pictures"))]
        Ok(Self { fixed: inputs::gather(session, sources, seed)?, rounds })
    }

    /// Inputs that stay as they are.
    pub(super) fn fixed(&self) -> &[Input] {
        &self.fixed
    }

    /// Whether an input is given pictures.
    pub(super) fn has_pictures(&self) -> bool {
        #[cfg(feature = "pictures")]
        return self.moving.is_some();
        #[cfg(not(feature = "pictures"))]
        false
    }

    /// Whether there are more replays than one, as far as was read.
    pub(super) fn is_many(&self) -> bool {
        #[cfg(feature = "pictures")]
        if self.moving.as_ref().is_some_and(|moving| moving.stream.is_many()) {
            return true;
        }
        self.rounds > 1
    }

    /// The next replay; `None` at the end.
    ///
    /// # Errors
    /// Those of [`Stream::next_shot`], naming the input.
    pub(super) fn next(&mut self, session: &Session<'_, '_>) -> Result<Option<Shot>> {
        #[cfg(feature = "pictures")]
        if let Some(Moving { source, binding: number, stream }) = &mut self.moving {
            let mut shot = inputs::of(source, stream.next_shot())?;
            if shot.is_none() && self.rounds > 1 {
                self.rounds -= 1;
                if let Some(again) = inputs::of(source, Stream::open(&source.file))? {
                    *stream = again;
                    shot = inputs::of(source, stream.next_shot())?;
                }
            }
            let Some(pictures::Shot { name, picture }) = shot else { return Ok(None) };
            let inputs = session.bindings(Direction::Input);
            let Some((_, binding)) = inputs.iter().find(|(other, _)| other == number) else { return Ok(None) };
            let (bytes, place) = inputs::of(source, pictures::contents(binding, &picture))?;
            let shown = Some((picture, place));
            return Ok(Some(Shot { name: Some(name), input: Some(Input { binding: *number, bytes }), shown }));
        }
        let _ = session;
        let left = self.rounds;
        self.rounds = left.saturating_sub(1);
        Ok((left > 0).then_some(Shot {
            name: None,
            input: None,
            #[cfg(feature = "pictures")]
            shown: None,
        }))
    }
}
