//! The total check of a plan: header, section table, digest, then every record of every section.

use super::{
    PlanError, RecordProblem, SectionKind, SectionProblem, StepProblem,
    check_shapes::check_shapes,
    check_step::{BindingSize, Regions, check_step},
    file::{
        ENTRY_BYTES, Entry, FILE_SECTIONS, HEADER_BYTES, Header, META, VARIANT_SECTIONS, blob_start, blobs_digest,
        entry_index, front_digest, signature,
    },
    format::{
        BLOB_ALIGNMENT, Binding, Direction, Image, KernelEntry, MAGIC, MAX_BINDINGS, MAX_CANDIDATES, MAX_CONTENT,
        MAX_KERNELS, MAX_STEPS, MAX_VARIANTS, Meta, OPERAND_ALIGNMENT, Purpose, Step, StepNote, VERSION, VariantHeader,
    },
    image::check_image,
    reader::{Plan, Records},
    section::{Section, add, check_name, check_text},
};

impl<'a> Plan<'a> {
    /// Checks all of `bytes` except the blobs' contents, which [`Plan::verify_blobs`] compares with their digest.
    ///
    /// Work and stack are bounded by the length of the file, whatever it holds.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PlanError> {
        check(bytes)
    }

    /// Compares weights and kernel images with their SHA-256, and equal ones with each other: reads the whole file.
    ///
    /// # Errors
    /// [`PlanError::BlobDigest`] where they differ; [`SectionProblem::StoredTwice`](super::SectionProblem::StoredTwice).
    pub fn verify_blobs(&self) -> Result<(), PlanError> {
        let front = usize::try_from(self.header.front).unwrap_or(usize::MAX);
        let blobs = self.bytes.get(front..).unwrap_or(&[]);
        if blobs_digest(blobs) != self.header.blobs {
            return Err(PlanError::BlobDigest);
        }
        check_shared(self.bytes, self.meta.variants)
    }
}

/// Checks all of `bytes` except the blobs' digest.
fn check(bytes: &[u8]) -> Result<Plan<'_>, PlanError> {
    let (header, bytes, signature) = check_header(bytes)?;
    check_table(bytes, &header)?;
    let meta: Meta<'_> = Section::find(bytes, META, SectionKind::Meta, 0)?.single()?;
    let wrong = |problem| PlanError::Record { section: SectionKind::Meta, variant: 0, record: 0, problem };
    if FILE_SECTIONS + meta.variants as usize * VARIANT_SECTIONS.len() != header.sections as usize {
        return Err(wrong(RecordProblem::Field("variants")));
    }
    [meta.model, meta.compiler].into_iter().try_for_each(check_text).map_err(wrong)?;
    for variant in 0..meta.variants {
        check_variant(bytes, variant)?;
    }
    let plan = Plan { bytes, header, meta, signature };
    check_shapes(&plan)?;
    Ok(plan)
}

/// The header, the plan without its signature, and the signature.
type Parts<'a> = (Header, &'a [u8], Option<&'a [u8; 64]>);

fn check_header(bytes: &[u8]) -> Result<Parts<'_>, PlanError> {
    let common = bytes.len().min(MAGIC.len());
    if bytes.is_empty() || bytes[..common] != MAGIC[..common] {
        return Err(PlanError::NotAPlan);
    }
    let found = bytes.len() as u64;
    let header = Header::read(bytes).ok_or(PlanError::Length { stated: HEADER_BYTES as u64, found })?;
    if header.version != VERSION {
        return Err(PlanError::Version { found: header.version });
    }
    let length = PlanError::Length { stated: header.length, found };
    let end = usize::try_from(header.length).map_err(|_| length)?;
    let (bytes, trailer) = bytes.split_at_checked(end).ok_or(length)?;
    let signature = signature(trailer);
    if signature.is_none() && !trailer.is_empty() {
        return Err(length);
    }
    let variants = header.sections.saturating_sub(FILE_SECTIONS as u32) / VARIANT_SECTIONS.len() as u32;
    let sections = FILE_SECTIONS + variants as usize * VARIANT_SECTIONS.len();
    if header.sections as usize != sections || !(1..=MAX_VARIANTS).contains(&variants) {
        return Err(PlanError::Header("number of sections"));
    }
    let table_end = (HEADER_BYTES + sections * ENTRY_BYTES) as u64;
    if header.front < table_end || header.front > header.length || !header.front.is_multiple_of(BLOB_ALIGNMENT) {
        return Err(PlanError::Header("length of the front"));
    }
    if front_digest(&bytes[..header.front as usize]) != header.digest {
        return Err(PlanError::Digest);
    }
    Ok((header, bytes, signature))
}

/// Every section stands exactly where the format puts it, so none overlaps another or reaches outside the file.
fn check_table(bytes: &[u8], header: &Header) -> Result<(), PlanError> {
    let sections = header.sections as usize;
    let mut structured_end = (HEADER_BYTES + sections * ENTRY_BYTES) as u64;
    let mut blobs_end = header.front;
    for index in 0..sections {
        // The file's own section belongs to no variant; the plan's version stands there.
        let (variant, kind, is_of_variant) = match index.checked_sub(FILE_SECTIONS) {
            None => (0, SectionKind::Meta, false),
            Some(rest) => (rest / VARIANT_SECTIONS.len(), VARIANT_SECTIONS[rest % VARIANT_SECTIONS.len()], true),
        };
        let at = |problem| PlanError::Section { section: kind, variant: variant as u32, problem };
        let entry = Entry::read(bytes, index).ok_or(at(SectionProblem::OutOfFile))?;
        if entry.kind != kind as u32 {
            return Err(at(SectionProblem::Kind { found: entry.kind }));
        }
        if is_of_variant && entry.variant != variant as u32 {
            return Err(at(SectionProblem::Variant { found: entry.variant }));
        }
        if kind.is_blob() && shares_earlier(bytes, index, &entry) {
            continue;
        }
        let (end, limit) =
            if kind.is_blob() { (&mut blobs_end, header.length) } else { (&mut structured_end, header.front) };
        let expected = if kind.is_blob() { blob_start(*end).unwrap_or(u64::MAX) } else { *end };
        if entry.offset != expected {
            return Err(at(SectionProblem::Offset { found: entry.offset, expected }));
        }
        if expected > limit {
            return Err(at(SectionProblem::OutOfFile));
        }
        if !are_zero(bytes, *end, expected) {
            return Err(at(SectionProblem::Padding));
        }
        *end = entry.offset.checked_add(entry.length).ok_or(at(SectionProblem::OutOfFile))?;
        if *end > limit {
            return Err(at(SectionProblem::OutOfFile));
        }
    }
    if blob_start(structured_end) != Some(header.front) {
        return Err(PlanError::Header("length of the front"));
    }
    if !are_zero(bytes, structured_end, header.front) {
        return Err(PlanError::Header("padding of the front"));
    }
    if blobs_end != header.length {
        return Err(PlanError::Header("file length"));
    }
    Ok(())
}

/// Whether all bytes of a range of the file are zero.
fn are_zero(bytes: &[u8], start: u64, end: u64) -> bool {
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let padding = range.and_then(|(start, end)| bytes.get(start..end));
    padding.is_some_and(|padding| padding.iter().all(|&byte| byte == 0))
}

/// Whether every blob that is not shared differs from those of the same kind before it.
fn check_shared(bytes: &[u8], variants: u32) -> Result<(), PlanError> {
    let blobs = VARIANT_SECTIONS.iter().enumerate().filter(|(_, kind)| kind.is_blob());
    for (position, &section) in blobs {
        let blob = |variant| Section::find(bytes, entry_index(variant as usize, position), section, variant);
        for variant in 1..variants {
            let later = blob(variant)?.bytes;
            for earlier in 0..variant {
                let earlier = blob(earlier)?.bytes;
                if earlier.as_ptr() != later.as_ptr() && earlier == later {
                    return Err(PlanError::Section { section, variant, problem: SectionProblem::StoredTwice });
                }
            }
        }
    }
    Ok(())
}

/// Whether an earlier variant's blob of the same kind has exactly the same range.
fn shares_earlier(bytes: &[u8], index: usize, entry: &Entry) -> bool {
    (0..index.saturating_sub(VARIANT_SECTIONS.len()) + 1)
        .filter_map(|earlier| Entry::read(bytes, earlier))
        .any(|earlier| (earlier.kind, earlier.offset, earlier.length) == (entry.kind, entry.offset, entry.length))
}

fn check_variant(bytes: &[u8], variant: u32) -> Result<(), PlanError> {
    let section = |position: usize| {
        Section::find(bytes, entry_index(variant as usize, position), VARIANT_SECTIONS[position], variant)
    };
    let (steps, kernels, table, bindings, notes) = (section(1)?, section(2)?, section(3)?, section(4)?, section(5)?);
    let (weights, images) = (section(6)?.bytes, section(7)?.bytes);

    let description = section(0)?;
    let header: VariantHeader<'_> = description.single()?;
    check_description(&header, weights.len() as u64).map_err(|problem| description.error(0, problem))?;
    check_images(&table, &header, images)?;
    kernels.records(header.kernels, |_, kernel: KernelEntry<'_>| {
        check_name(kernel.name)?;
        if kernel.image < header.images { Ok(()) } else { Err(RecordProblem::NoSuchImage(kernel.image)) }
    })?;
    let sizes = check_bindings(&bindings, &header, weights.len() as u64)?;
    let regions = Regions { header: &header, weights: weights.len() as u64, bindings: &sizes };
    check_steps(&steps, &regions)?;
    if !notes.bytes.is_empty() {
        notes.records(header.steps, |_, note: StepNote<'_>| check_note(&note))?;
    }
    #[cfg(feature = "measure")]
    super::check_candidate::check_candidates(&section(8)?, &header, section(9)?.bytes)?;
    Ok(())
}

fn check_description(header: &VariantHeader<'_>, weights: u64) -> Result<(), RecordProblem> {
    let host = header.architecture == 0;
    let fields = [
        ("target", check_name(header.target).is_ok()),
        ("nvrtc", check_text(header.nvrtc).is_ok()),
        ("precision", check_text(header.precision).is_ok()),
        ("steps", header.steps <= MAX_STEPS),
        ("kernels", header.kernels <= if host { 0 } else { MAX_KERNELS }),
        ("images", header.images <= if host { 0 } else { MAX_KERNELS }),
        ("candidates", header.candidates <= if host { 0 } else { MAX_CANDIDATES }),
        ("bindings", header.bindings as usize <= MAX_BINDINGS),
        ("zeroed_bytes", header.zeroed_bytes <= header.arena_bytes),
    ];
    if let Some((field, _)) = fields.iter().find(|(_, right)| !right) {
        return Err(RecordProblem::Field(field));
    }
    add(header.arena_bytes, weights).map(drop)
}

fn check_images(table: &Section<'_>, header: &VariantHeader<'_>, blob: &[u8]) -> Result<(), PlanError> {
    let mut end = 0;
    table.records(header.images, |_, image: Image| {
        let after = check_image(image, header.image_kind, blob)?;
        if image.offset != u64::next_multiple_of(end, OPERAND_ALIGNMENT) || !are_zero(blob, end, image.offset) {
            return Err(RecordProblem::ImageRange);
        }
        end = after;
        Ok(())
    })?;
    if end == blob.len() as u64 { Ok(()) } else { Err(table.error(header.images, RecordProblem::ImageRange)) }
}

fn check_bindings(
    section: &Section<'_>,
    header: &VariantHeader<'_>,
    weights: u64,
) -> Result<heapless::Vec<BindingSize, MAX_BINDINGS>, PlanError> {
    let mut sizes = heapless::Vec::new();
    let mut total = header.arena_bytes + weights;
    section.records(header.bindings, |number, binding: Binding<'_>| {
        check_name(binding.name)?;
        if binding.content.len() > MAX_CONTENT {
            return Err(RecordProblem::Field("content"));
        }
        check_text(binding.content)?;
        // An input that is also an output of the model keeps its name in both.
        let meets = |other: &Binding<'_>| {
            let pair = [binding.direction, other.direction];
            pair[0] == pair[1] || pair.contains(&Direction::State)
        };
        let earlier = Records::<Binding<'_>>::new(section.bytes).take(number as usize);
        if earlier.into_iter().any(|other| other.name == binding.name && meets(&other)) {
            return Err(RecordProblem::DuplicateName);
        }
        let bytes = binding.bytes().ok_or(RecordProblem::TooLarge)?;
        total = add(total, bytes)?;
        let limit = RecordProblem::TooMany { limit: MAX_BINDINGS as u32 };
        sizes.push(BindingSize { bytes, direction: binding.direction }).map_err(|_| limit)
    })?;
    Ok(sizes)
}

fn check_steps(section: &Section<'_>, regions: &Regions<'_>) -> Result<(), PlanError> {
    if cfg!(not(feature = "host")) && regions.header.architecture == 0 {
        // Nothing of this engine ever decodes them; the digest of the front vouches for their bytes.
        return Ok(());
    }
    let at = |step, problem| PlanError::Step { variant: section.variant, step, problem };
    let expected = regions.header.steps;
    let mut records = Records::<Step>::new(section.bytes);
    let mut number = 0;
    let mut purpose = Purpose::Network;
    while let Some(step) = records.try_next_exact() {
        if number == expected {
            return Err(section.error(number, RecordProblem::Count { found: number + 1, expected }));
        }
        // By reference: a step is 6 KB, and a move would need as much stack again.
        let step = step.as_ref().map_err(|&malformed| at(number, malformed.into()))?;
        check_step(regions, number, step).map_err(|problem| at(number, problem))?;
        // The network, then guards, then one signal.
        if step.purpose() < purpose || purpose == Purpose::Signal {
            return Err(at(number, StepProblem::Completion));
        }
        purpose = step.purpose();
        number += 1;
    }
    if purpose == Purpose::Guard {
        return Err(at(number - 1, StepProblem::Completion));
    }
    if number != expected {
        return Err(section.error(number, RecordProblem::Count { found: number, expected }));
    }
    Ok(())
}

fn check_note(note: &StepNote<'_>) -> Result<(), RecordProblem> {
    [note.sources, note.reasons, note.family, note.algorithm, note.configuration, note.runner_up]
        .into_iter()
        .try_for_each(check_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut VariantHeader<'_>);

    #[test]
    fn limits_are_inclusive() {
        let header = VariantHeader {
            target: "gpu",
            architecture: 87,
            precision: "f32",
            arena_bytes: 512,
            arena_lower_bound: 512,
            zeroed_bytes: 512,
            steps: MAX_STEPS,
            kernels: MAX_KERNELS,
            images: MAX_KERNELS,
            bindings: MAX_BINDINGS as u32,
            candidates: MAX_CANDIDATES,
            ..VariantHeader::default()
        };
        assert_eq!(check_description(&header, 0), Ok(()));
        let wrong: [(&str, Change); 6] = [
            ("steps", |header| header.steps += 1),
            ("kernels", |header| header.kernels += 1),
            ("images", |header| header.images += 1),
            ("bindings", |header| header.bindings += 1),
            ("candidates", |header| header.candidates += 1),
            ("zeroed_bytes", |header| header.zeroed_bytes += 1),
        ];
        for (field, change) in wrong {
            let mut header = header.clone();
            change(&mut header);
            assert_eq!(check_description(&header, 0), Err(RecordProblem::Field(field)));
        }
        // Nothing of a GPU's stands in a variant for the host.
        let host = VariantHeader { architecture: 0, kernels: 0, images: 0, candidates: 0, ..header.clone() };
        assert_eq!(check_description(&host, 0), Ok(()));
        for (field, change) in [wrong[1], wrong[2], wrong[4]] {
            let mut host = host.clone();
            change(&mut host);
            assert_eq!(check_description(&host, 0), Err(RecordProblem::Field(field)));
        }
    }
}
