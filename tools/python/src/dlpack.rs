//! Tensors in a GPU's memory, by DLPack: <https://dmlc.github.io/dlpack/latest/c_api.html>.

use crate::{errors::usage, worker::Buffer};
use floe::device_memory::DeviceSlice;
use pyo3::{
    IntoPyObjectExt, ffi,
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::{
    ffi::{CStr, c_int, c_void},
    ptr, slice,
    sync::Arc,
};

/// `kDLCUDA`.
const CUDA: c_int = 2;
/// Name of a capsule whose tensor nobody has taken.
const NAME: &CStr = c"dltensor";

/// `DLTensor`, its device and its type written out.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: c_int,
    device_id: c_int,
    rank: c_int,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    /// In elements; null for row-major without gaps.
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// Code and bits of an element type by the plan's name for it; `None` where DLPack has none for single elements in memory.
fn element(dtype: &str) -> Option<(u8, u8)> {
    Some(match dtype {
        "i8" => (0, 8),
        "i16" => (0, 16),
        "i32" => (0, 32),
        "i64" => (0, 64),
        "u8" => (1, 8),
        "u16" => (1, 16),
        "u32" => (1, 32),
        "u64" => (1, 64),
        "f16" => (2, 16),
        "f32" => (2, 32),
        "f64" => (2, 64),
        "bf16" => (4, 16),
        "bool" => (6, 8),
        "f8e4m3" => (10, 8),
        "f8e4m3fnuz" => (11, 8),
        "f8e5m2" => (12, 8),
        "f8e5m2fnuz" => (13, 8),
        _ => return None,
    })
}

/// A binding, as the package knows it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Binding {
    number: usize,
    name: String,
    /// The plan's name of the element type.
    dtype: String,
    shape: Vec<i64>,
}

/// A tensor of another library that is on the GPU, and stays as long as this.
pub struct Lent {
    /// Number of the binding that it is for.
    pub number: usize,
    /// Its bytes.
    pub memory: DeviceSlice,
    /// Keeps it.
    _capsule: Py<PyAny>,
}

impl Lent {
    /// Asks a tensor for its memory, which must be what the binding needs. `stream` waits for whatever the tensor's library still
    /// does with it.
    ///
    /// # Errors
    /// Raises UsageError where the tensor does not fit, and what its library raises.
    pub fn of(tensor: &Bound<'_, PyAny>, binding: &Binding, stream: usize) -> PyResult<Self> {
        let Binding { number, name, dtype, shape } = binding;
        let arguments = PyDict::new(tensor.py());
        arguments.set_item("stream", stream)?;
        let capsule = tensor.call_method("__dlpack__", (), Some(&arguments))?;
        // SAFETY: an object with the interpreter attached; whatever it is, this returns null where it is no such capsule.
        let managed = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME.as_ptr()) };
        if managed.is_null() {
            let _ = PyErr::take(tensor.py());
            return Err(usage(format!("'{name}': its __dlpack__ gives no capsule 'dltensor'")));
        }
        // SAFETY: a capsule of this name holds such a structure, which lives until its deleter is called. The capsule does that
        // when it goes, since nobody takes the tensor out of it.
        let Tensor { data, device_type, device_id, rank, code, bits, lanes, shape: extents, strides, byte_offset } =
            unsafe { ptr::read(&raw const (*managed.cast::<Managed>()).tensor) };
        // 13 is managed memory, which a GPU reads like its own.
        if (device_type != CUDA && device_type != 13) || device_id != 0 {
            return Err(usage(format!(
                "'{name}': the tensor is on device ({device_type}, {device_id}) of DLPack, and the session on the first GPU: \
                 hand over tensor.cpu(), or choose the GPU with CUDA_VISIBLE_DEVICES"
            )));
        }
        let rank = usize::try_from(rank).unwrap_or(0);
        // SAFETY: both have so many elements, or are null, the first where there is none.
        let [extents, strides] = [extents, strides].map(|start| match rank > 0 && !start.is_null() {
            true => unsafe { slice::from_raw_parts(start, rank) },
            false => &[],
        });
        let Some(wanted) = element(dtype) else {
            return Err(usage(format!("'{name}' is {dtype}, which DLPack has no type for: hand over tensor.cpu()")));
        };
        if (code, bits, lanes) != (wanted.0, wanted.1, 1) {
            return Err(usage(format!(
                "'{name}' is {dtype}, and the tensor has another element type ({bits} bits of DLPack's kind {code}): convert it"
            )));
        }
        if extents != shape {
            return Err(usage(format!("'{name}' has the shape {shape:?}, and the tensor has {extents:?}")));
        }
        if !strides.is_empty() && !is_row_major(extents, strides) {
            return Err(usage(format!("'{name}': the tensor is not contiguous: hand over tensor.contiguous()")));
        }
        let elements: i64 = extents.iter().product();
        let address = data.addr() as u64 + byte_offset;
        let memory = DeviceSlice { address, bytes: elements.unsigned_abs() as usize * usize::from(bits / 8) };
        Ok(Self { number: *number, memory, _capsule: capsule.unbind() })
    }
}

fn is_row_major(extents: &[i64], strides: &[i64]) -> bool {
    let mut step = 1;
    extents.contains(&0)
        || extents.iter().zip(strides).rev().all(|(&extent, &stride)| {
            let expected = step;
            step *= extent;
            extent == 1 || stride == expected
        })
}

/// An output that stays in the GPU's memory, for libraries that know DLPack: `torch.from_dlpack(array)`. Its memory goes when this
/// and all that was made of it are gone; it may outlive its session. The numbers are there already: no stream has to wait.
#[pyclass(frozen, module = "floe")]
pub struct DeviceArray {
    buffer: Arc<Buffer>,
    binding: Binding,
    element: (u8, u8),
}

impl DeviceArray {
    /// Bytes of a binding.
    ///
    /// # Errors
    /// Raises UsageError where DLPack has no such element type.
    pub fn bytes(binding: &Binding) -> PyResult<usize> {
        let Some((_, bits)) = element(&binding.dtype) else {
            let Binding { name, dtype, .. } = binding;
            return Err(usage(format!("'{name}' is {dtype}, which DLPack has no type for: leave on_device out")));
        };
        Ok(binding.shape.iter().product::<i64>().unsigned_abs() as usize * usize::from(bits / 8))
    }

    /// An array in a buffer of that many bytes.
    pub fn new(buffer: Buffer, binding: Binding) -> Self {
        let element = element(&binding.dtype).unwrap_or_default();
        Self { buffer: Arc::new(buffer), binding, element }
    }
}

/// What a capsule's tensor points to.
struct Context {
    _buffer: Arc<Buffer>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

#[pymethods]
impl DeviceArray {
    /// Extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.binding.shape)
    }

    /// The plan's name of the element type, as 'f32'.
    #[getter]
    fn dtype(&self) -> &str {
        &self.binding.dtype
    }

    /// Bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.buffer.memory.bytes
    }

    fn __repr__(&self) -> String {
        let Binding { name, dtype, shape, .. } = &self.binding;
        format!("<floe.DeviceArray {name}: {dtype} {shape:?} on the GPU>")
    }

    /// The device of DLPack: the first GPU.
    fn __dlpack_device__(&self) -> (c_int, c_int) {
        (CUDA, 0)
    }

    /// A capsule with the memory. No stream has to wait for it, so `stream` may be any.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<Bound<'_, PyAny>>,
        max_version: Option<Bound<'_, PyAny>>,
        dl_device: Option<(c_int, c_int)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        // Consumers that know a later version take the first one too.
        let _ = (stream, max_version);
        if dl_device.is_some_and(|device| device != (CUDA, 0)) || copy == Some(true) {
            return Err(pyo3::exceptions::PyBufferError::new_err(
                "the array is exported where it lies, without a copy; copy what is made of it",
            ));
        }
        let shape = self.binding.shape.clone();
        let mut strides = vec![1; shape.len()];
        for number in (1..shape.len()).rev() {
            strides[number - 1] = strides[number] * shape[number];
        }
        let mut context = Box::new(Context { _buffer: self.buffer.clone(), shape, strides });
        let tensor = Tensor {
            data: ptr::without_provenance_mut(self.buffer.memory.address as usize),
            device_type: CUDA,
            device_id: 0,
            rank: context.shape.len() as c_int,
            code: self.element.0,
            bits: self.element.1,
            lanes: 1,
            shape: context.shape.as_mut_ptr(),
            strides: context.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let context = Box::into_raw(context).cast();
        let managed = Box::into_raw(Box::new(Managed { tensor, context, deleter: Some(delete) }));
        // SAFETY: the name is static, and the destructor is one for such a capsule.
        let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), NAME.as_ptr(), Some(destroy)) };
        if capsule.is_null() {
            // SAFETY: made above; nobody has it.
            unsafe { delete(managed) };
            return Err(PyErr::fetch(py));
        }
        // SAFETY: a new reference of our own.
        unsafe { Bound::from_owned_ptr(py, capsule) }.into_py_any(py)
    }
}

/// The deleter of an exported tensor: any thread may call it, with the interpreter or without.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: DLPack calls this once for what `__dlpack__` made of two boxes.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

/// The destructor of a capsule: a tensor that was taken out of it, and renamed it, belongs to who has taken it.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this with the capsule, whose pointer is `__dlpack__`'s as long as its name is.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}
