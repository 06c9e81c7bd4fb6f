//! The check of a description: its file's fields become what the compiler uses.

use super::{
    attribute::{Attribute, Kind, value},
    description::{Description, Gpu, Input, Output, OutputType, Shape},
    expression::{Expression, Name, Place, Wrong},
    file, names,
};
use crate::import::{Operator, scalar};
use floe_kernels::{MAX_INPUTS, MAX_OUTPUTS, MAX_RANK, custom::MAX_ATTRIBUTES};
use std::{collections::HashSet, path::Path};
use toml::Spanned;

/// Makes a description of its file's fields.
pub(super) struct Reader<'t> {
    pub text: &'t str,
}

type Result<T> = std::result::Result<T, Wrong>;

impl Reader<'_> {
    fn place<T>(&self, field: &Spanned<T>) -> Place {
        Place::of(self.text, field.span().start)
    }

    fn wrong<T, F>(&self, field: &Spanned<F>, reason: impl Into<String>) -> Result<T> {
        Err(Wrong { place: self.place(field), reason: reason.into() })
    }

    /// Where the text inside of a string's quotes begins. Behind an escape, columns are those of the string as it reads.
    fn inside(&self, field: &Spanned<String>) -> Place {
        let written = &self.text[field.span()];
        let quotes = if written.starts_with("\"\"\"") || written.starts_with("'''") { 3 } else { 1 };
        // A line break right behind three quotes is no part of the string.
        let skipped =
            quotes + written[quotes..].bytes().take_while(|byte| quotes == 3 && b"\r\n".contains(byte)).count();
        Place::of(self.text, field.span().start + skipped)
    }

    fn expression(&self, field: &Spanned<String>) -> Result<Expression> {
        Expression::parse(field.get_ref(), self.inside(field))
    }

    fn optional(&self, field: Option<&Spanned<String>>) -> Result<Expression> {
        field.map_or(Ok(Expression::number(0)), |field| self.expression(field))
    }

    fn identifier(&self, field: &Spanned<String>) -> Result<String> {
        match names::problem(field.get_ref()) {
            None => Ok(field.get_ref().clone()),
            Some(problem) => self.wrong(field, format!("'{}' is no name: {problem}", field.get_ref())),
        }
    }

    pub fn description(&self, file: file::Description, path: &Path) -> Result<Description> {
        for (field, what) in [(&file.domain, "domain"), (&file.name, "operator's name")] {
            if let Some(problem) = names::onnx_problem(field.get_ref()) {
                return self.wrong(field, format!("'{}' is no {what}: {problem}", field.get_ref()));
            }
        }
        if Operator::find(file.domain.get_ref(), file.name.get_ref()).is_some() {
            return self.wrong(&file.name, "Floe has this operator; only others can be described");
        }
        let versions = file.versions.get_ref();
        if versions.is_empty() || versions.iter().any(|&version| version < 1) {
            return self.wrong(&file.versions, "versions are those of the domain's operator set, from 1 on");
        }
        let count = |found: usize, most: usize, what: &str| match found <= most {
            true => Ok(()),
            false => self.wrong(&file.name, format!("an operator has at most {most} {what}, not {found}")),
        };
        count(file.input.len(), MAX_INPUTS, "inputs")?;
        count(file.output.len(), MAX_OUTPUTS, "outputs")?;
        if file.input.is_empty() || file.output.is_empty() {
            return self.wrong(&file.name, "an operator has an [[input]] and an [[output]]");
        }
        let inputs = file.input.iter().map(|input| self.input(input)).collect::<Result<Vec<_>>>()?;
        let outputs = file.output.iter().map(|output| self.output(output, &inputs)).collect::<Result<Vec<_>>>()?;
        let attributes =
            file.attribute.iter().map(|attribute| self.attribute(attribute)).collect::<Result<Vec<_>>>()?;
        count(
            attributes.iter().map(|attribute| attribute.kind.numbers()).sum(),
            MAX_ATTRIBUTES,
            "numbers in attributes",
        )?;
        let gpu = file.gpu.as_ref().map(|gpu| self.gpu(gpu)).transpose()?;
        let host_workspace = self.optional(file.host.as_ref().and_then(|host| host.workspace.as_ref()))?;
        let description = Description {
            path: path.to_owned(),
            domain: file.domain.get_ref().clone(),
            name: names::interned(file.name.get_ref()),
            versions: versions.clone(),
            element_wise: file.element_wise,
            inputs,
            outputs,
            attributes,
            gpu,
            host_workspace,
        };
        self.check_names(&file, &description)?;
        Ok(description)
    }

    fn input(&self, input: &file::Input) -> Result<Input> {
        let types = input.types.get_ref().iter().map(|name| match names::dtype(name) {
            Some(dtype) => Ok(dtype),
            None => self.wrong(&input.types, format!("'{name}' is no element type; there are {}", names::dtypes())),
        });
        let types = types.collect::<Result<Vec<_>>>()?;
        if types.is_empty() {
            return self.wrong(&input.types, "an input has a type at least");
        }
        let default = input.default.as_ref().map(|default| {
            let number = match default.get_ref() {
                toml::Value::Integer(integer) => Some(*integer as f64),
                other => other.as_float().filter(|number| number.is_finite()),
            };
            let dtype = types[0];
            let fits = number.filter(|&number| scalar(dtype, number).is_some());
            fits.map_or_else(|| self.wrong(default, format!("the default is no number of type {}", dtype.name())), Ok)
        });
        let (default, shape) = (default.transpose()?, self.shape(&input.shape)?);
        Ok(Input { name: self.identifier(&input.name)?, types, shape, default, f16: input.f16 })
    }

    fn output(&self, output: &file::Output, inputs: &[Input]) -> Result<Output> {
        let name = output.r#type.get_ref();
        let dtype = match (names::dtype(name), inputs.iter().position(|input| input.name == *name)) {
            (Some(dtype), _) => OutputType::Always(dtype),
            (None, Some(number)) => OutputType::OfInput(number),
            (None, None) => {
                let known = names::dtypes();
                return self.wrong(&output.r#type, format!("'{name}' is neither an input nor one of {known}"));
            }
        };
        Ok(Output { name: self.identifier(&output.name)?, dtype, shape: self.shape(&output.shape)?, f16: output.f16 })
    }

    fn shape(&self, field: &Spanned<String>) -> Result<Shape> {
        if field.get_ref().chars().filter(|c| !c.is_whitespace()).eq("[...]".chars()) {
            return Ok(Shape::Any);
        }
        let extents = Expression::parse_list(field.get_ref(), self.inside(field))?;
        if extents.len() > MAX_RANK {
            return self.wrong(field, format!("a tensor has at most {MAX_RANK} dimensions, not {}", extents.len()));
        }
        Ok(Shape::Extents(extents))
    }

    fn attribute(&self, attribute: &file::Attribute) -> Result<Attribute> {
        let name = self.identifier(&attribute.name)?;
        let kind_name = attribute.r#type.get_ref().as_str();
        let range = attribute.least.unwrap_or(i64::MIN)..=attribute.most.unwrap_or(i64::MAX);
        let length = || match attribute.length {
            Some(length @ 1..=MAX_ATTRIBUTES) => Ok(length),
            _ => self.wrong(&attribute.r#type, format!("a list has a `length`, from 1 to {MAX_ATTRIBUTES}")),
        };
        let kind = match kind_name {
            "int" => Kind::Integer(range),
            "float" => Kind::Real,
            "ints" => Kind::Integers(length()?, range),
            "floats" => Kind::Reals(length()?),
            "choice" => match &attribute.choices {
                Some(choices) if !choices.is_empty() => Kind::Choice(choices.clone()),
                _ => return self.wrong(&attribute.r#type, "a choice has `choices`"),
            },
            other => {
                let problem = format!("'{other}' is none of the types int, float, ints, floats and choice");
                return self.wrong(&attribute.r#type, problem);
            }
        };
        let ranged = matches!(kind, Kind::Integer(_) | Kind::Integers(..));
        for (given, allowed, field) in [
            (attribute.length.is_some(), matches!(kind, Kind::Integers(..) | Kind::Reals(_)), "length"),
            (attribute.least.is_some() || attribute.most.is_some(), ranged, "least or most"),
            (attribute.choices.is_some(), matches!(kind, Kind::Choice(_)), "choices"),
        ] {
            if given && !allowed {
                return self.wrong(&attribute.r#type, format!("an attribute of type {kind_name} has no {field}"));
            }
        }
        let default = attribute.default.as_ref().map(|default| {
            let value = value(default.get_ref()).and_then(|given| kind.value(given));
            value.or_else(|problem| self.wrong(default, format!("the default of '{name}' {problem}")))
        });
        Ok(Attribute { default: default.transpose()?, name, kind })
    }

    fn gpu(&self, gpu: &file::Gpu) -> Result<Gpu> {
        let file = gpu.source.get_ref();
        // One name of the folder, and one that can stand in a #line.
        if file.is_empty()
            || file.starts_with('.')
            || file.contains(['/', '\\', '"'])
            || file.contains(char::is_control)
        {
            return self.wrong(&gpu.source, "the source is a file beside the description");
        }
        let three = |field: &Spanned<String>| {
            let list = Expression::parse_list(field.get_ref(), self.inside(field))?;
            match list.len() {
                1..=3 => Ok(list),
                other => self.wrong(field, format!("a grid or block has 1 to 3 extents, not {other}")),
            }
        };
        Ok(Gpu {
            file: file.clone(),
            source: String::new(),
            function: self.identifier(&gpu.function)?,
            grid: three(&gpu.grid)?,
            block: three(&gpu.block)?,
            shared: self.optional(gpu.shared.as_ref())?,
            workspace: gpu.workspace.as_ref().map(|field| self.expression(field)).transpose()?,
            operations: self.optional(gpu.operations.as_ref())?,
        })
    }

    /// Every name is one thing, and every expression names what is known where it stands.
    fn check_names(&self, file: &file::Description, description: &Description) -> Result<()> {
        let Description { inputs, outputs, attributes, gpu, .. } = description;
        let fields = file.input.iter().map(|input| &input.name).chain(file.output.iter().map(|output| &output.name));
        let fields = fields.chain(file.attribute.iter().map(|attribute| &attribute.name));
        let mut taken = HashSet::new();
        for field in fields {
            if !taken.insert(field.get_ref().as_str()) {
                return self.wrong(field, format!("'{}' is already the name of something else", field.get_ref()));
            }
        }
        let mut dimensions = HashSet::new();
        let required = || inputs.iter().filter(|input| input.default.is_none());
        for extent in required().flat_map(|input| input.shape.extents()) {
            let Some(name) = extent.as_name().filter(|name| !attributes.iter().any(|known| known.name == **name))
            else {
                continue;
            };
            let refuse = |reason| Err(Wrong { place: extent.place(), reason });
            if let Some(problem) = names::problem(name) {
                return refuse(format!("'{name}' is no name: {problem}"));
            }
            if taken.contains(name) {
                return refuse(format!("'{name}' is a tensor, not a number"));
            }
            dimensions.insert(name);
        }
        let tensor = |name: &str, made: bool| {
            let input = inputs.iter().any(|input| input.name == name && (made || input.default.is_none()));
            input || made && outputs.iter().any(|output| output.name == name)
        };
        // `stored` where element types are settled and outputs known.
        let check = |expression: &Expression, stored: bool| {
            expression.names(&mut |name, place| {
                let refuse = |reason: String| Err(Wrong { place, reason });
                let attribute = |name: &str| attributes.iter().find(|attribute| attribute.name == name);
                match name {
                    Name::Number(name) if dimensions.contains(name.as_str()) => Ok(()),
                    Name::Number(name) => match attribute(name).map(|attribute| &attribute.kind) {
                        Some(Kind::Integer(_) | Kind::Choice(_)) => Ok(()),
                        Some(Kind::Integers(..)) => refuse(format!("'{name}' is a list; write {name}[0]")),
                        Some(Kind::Real | Kind::Reals(_)) => refuse(format!("'{name}' is no integer")),
                        None => refuse(format!(
                            "'{name}' is neither a dimension of an input without a default nor an attribute"
                        )),
                    },
                    Name::Element(name, index) => match attribute(name).map(|attribute| &attribute.kind) {
                        Some(Kind::Integers(length, _)) if index < length => Ok(()),
                        Some(Kind::Integers(length, _)) => refuse(format!("'{name}' has {length} elements")),
                        _ => refuse(format!("'{name}' is no list of integers")),
                    },
                    Name::SizeOf(_) if !stored => refuse("a shape does not depend on how elements are stored".into()),
                    Name::Elements(name) | Name::SizeOf(name) => match tensor(name, stored) {
                        true => Ok(()),
                        false => refuse(format!("'{name}' is no tensor that is known here")),
                    },
                }
            })
        };
        let shapes = inputs.iter().map(|input| &input.shape).chain(outputs.iter().map(|output| &output.shape));
        for extent in shapes.flat_map(Shape::extents) {
            check(extent, false)?;
        }
        check(&description.host_workspace, true)?;
        if let Some(gpu) = gpu {
            let single = [&gpu.shared, &gpu.operations].into_iter().chain(&gpu.workspace);
            gpu.grid.iter().chain(&gpu.block).chain(single).try_for_each(|expression| check(expression, true))?;
        }
        let any = |shape: &Shape| *shape == Shape::Any;
        let is_known = required().any(|input| any(&input.shape));
        let mut all = inputs.iter().map(|input| &input.shape).chain(outputs.iter().map(|output| &output.shape));
        if !is_known && all.any(any) {
            return self
                .wrong(&file.name, "[...] stands for the shape of an input without a default, and there is none");
        }
        Ok(())
    }
}
