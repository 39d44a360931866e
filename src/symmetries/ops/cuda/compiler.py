"""CUDA C compiled when it is first needed, by the NVRTC library that comes with torch.

For kernels that need what Triton does not offer: reading shared memory at any address. No compiler
has to be installed; where the library is missing, callers use their Triton kernels.
"""

import ctypes
import math
import threading
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import torch
from torch import Tensor

from symmetries.ops._dispatch import kernels_enabled

Argument = Tensor | int | float | ctypes.Structure
_MOST_DYNAMIC = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_USUAL_SHARED = 48 * 1024
_thread = threading.local()  # the GPU whose context a thread has been given


class CudaError(RuntimeError):
    """A call of the driver or of the compiler failed."""


def error_of(trial: Callable[[], float]) -> float:
    """Return the error that a trial of kernels reports; infinite if they cannot be compiled."""
    try:
        return trial()
    except Exception as problem:
        triton = type(problem).__module__.startswith("triton")  # which need not be installed
        if not (triton or isinstance(problem, CudaError)):
            raise
        return math.inf


def has_compiler() -> bool:
    """Return whether kernels in CUDA C can be compiled and launched here, and are enabled."""
    return kernels_enabled() and _compiles()


@cache
def _compiles() -> bool:
    if not torch.cuda.is_available() or torch.version.cuda is None:
        return False
    try:
        _driver()
        _cubin(b'extern "C" __global__ void nothing() {}', [_architecture(0)])
    except (OSError, CudaError):  # no library, or one that does not know this GPU
        return False
    return True


@cache
def _nvrtc() -> ctypes.CDLL:
    major = str(torch.version.cuda).partition(".")[0]
    try:
        return ctypes.CDLL(f"libnvrtc.so.{major}")
    except OSError:
        return ctypes.CDLL("libnvrtc.so")


@cache
def _driver() -> ctypes.CDLL:
    driver = ctypes.CDLL("libcuda.so.1")
    pointer, number = ctypes.c_void_p, ctypes.c_uint
    driver.cuLaunchKernel.argtypes = [pointer, *[number] * 7, pointer, pointer, pointer]
    return driver


def _architecture(device: int) -> bytes:
    major, minor = torch.cuda.get_device_capability(device)
    return f"--gpu-architecture=sm_{major}{minor}".encode()


def _check(code: int, what: str) -> None:
    if code:
        raise CudaError(f"{what} failed with code {code}")


def _cubin(source: bytes, options: list[bytes]) -> bytes:
    """Compile a source to machine code."""
    library = _nvrtc()
    program = ctypes.c_void_p()
    _check(
        library.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None),
        "nvrtcCreateProgram",
    )
    try:
        given = (ctypes.c_char_p * len(options))(*options)
        failed = library.nvrtcCompileProgram(program, len(options), given)
        length = ctypes.c_size_t()
        if failed:
            library.nvrtcGetProgramLogSize(program, ctypes.byref(length))
            log = ctypes.create_string_buffer(length.value)
            library.nvrtcGetProgramLog(program, log)
            raise CudaError(f"compilation failed:\n{log.value.decode()}")
        _check(library.nvrtcGetCUBINSize(program, ctypes.byref(length)), "nvrtcGetCUBINSize")
        code = ctypes.create_string_buffer(length.value)
        _check(library.nvrtcGetCUBIN(program, code), "nvrtcGetCUBIN")
        return code.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _value(argument: Argument) -> Any:
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    if isinstance(argument, int):
        return ctypes.c_int(argument)
    return ctypes.c_float(argument) if isinstance(argument, float) else argument


def _enter(device: int) -> None:
    """Make the GPU's context current, because a thread of autograd may not have one."""
    driver, context = _driver(), ctypes.c_void_p()
    _check(driver.cuCtxGetCurrent(ctypes.byref(context)), "cuCtxGetCurrent")
    if context.value is None:
        _check(
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
            "cuDevicePrimaryCtxRetain",
        )
        _check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")


class CudaKernel:
    """A compiled kernel.

    Args:
        function: the driver's handle.
        module: that of its module, which must stay loaded.
        shared: bytes of dynamic shared memory.
        device: number of the GPU.
    """

    def __init__(
        self, function: ctypes.c_void_p, module: ctypes.c_void_p, shared: int, device: int
    ) -> None:
        self.function = function
        self.module = module
        self.shared = shared
        self.device = device

    def __call__(self, grid: tuple[int, ...], threads: int, *arguments: Argument) -> None:
        """Launch on the current stream; numbers are passed as C's int and float."""
        values = [_value(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        sizes = (*grid, 1, 1)[:3]
        if torch.cuda.current_device() == self.device:
            code = self._launch(sizes, threads, pointers)
        else:
            with torch.cuda.device(self.device):
                code = self._launch(sizes, threads, pointers)
        _check(code, "cuLaunchKernel")

    def _launch(
        self, sizes: tuple[int, ...], threads: int, pointers: "ctypes.Array[ctypes.c_void_p]"
    ) -> int:
        """Launch on the current GPU, which must be the kernel's."""
        if getattr(_thread, "device", None) != self.device:
            _enter(self.device)
            _thread.device = self.device
        stream = torch._C._cuda_getCurrentRawStream(self.device)
        return _driver().cuLaunchKernel(
            self.function, *sizes, threads, 1, 1, self.shared, stream, pointers, None
        )


@cache
def cuda_kernel(
    file: str, name: str, constants: tuple[tuple[str, int], ...], shared: int, device: int
) -> CudaKernel:
    """Return a kernel from one of the source files in this folder.

    Args:
        file: such as "warp.cu"; several that go one after another are parted by spaces.
        name: of the function.
        constants: names and values that the source leaves open.
        shared: bytes of dynamic shared memory.
        device: number of the GPU.
    """
    folder = resources.files("symmetries.ops.cuda")
    source = b"\n".join(folder.joinpath(part).read_bytes() for part in file.split())
    options = [_architecture(device), b"-default-device", b"--std=c++17"]
    options += [f"-D{key}={value}".encode() for key, value in constants]
    code = _cubin(source, options)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver = _driver()
    with torch.cuda.device(device):
        _enter(device)
        _check(driver.cuModuleLoadData(ctypes.byref(module), code), "cuModuleLoadData")
        handle = driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        _check(handle, "cuModuleGetFunction")
        if shared > _USUAL_SHARED:
            _check(driver.cuFuncSetAttribute(function, _MOST_DYNAMIC, shared), "cuFuncSetAttribute")
    return CudaKernel(function, module, shared, device)
