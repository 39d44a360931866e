"""Triton's kernels of an image warp: forward, to the map, to the images.

The sampling point is computed in registers from the 2 x 3 map, so no grid is written or read.
The gradient to the map is reduced inside the kernel to six numbers a block of pixels. The gradient
to the images is gathered: each pixel of the source looks up, through the inverse of the map, which
pixels of the result saw it; nothing is added atomically, so it is the same in every run. Outside
the image lies zero. The taps are a table of weights: 2 x 2 (bilinear), or 4 x 4 for the Keys
kernel and for cubic B-splines (whose images are coefficients with a margin around them).
"""

import triton
import triton.language as tl


@triton.jit
def _weight(f, k: tl.constexpr, MODE: tl.constexpr):
    """Weight of tap k at the fraction f, and its derivative."""
    if MODE == 0:
        if k == 0:
            return 1.0 - f, tl.zeros_like(f) - 1.0
        return f, tl.zeros_like(f) + 1.0
    if MODE == 1:
        a: tl.constexpr = -0.75
        if k == 0:
            t = 1.0 + f
            return a * (((t - 5.0) * t + 8.0) * t - 4.0), a * ((3.0 * t - 10.0) * t + 8.0)
        if k == 1:
            return ((a + 2.0) * f - (a + 3.0)) * f * f + 1.0, (
                3.0 * (a + 2.0) * f - 2.0 * (a + 3.0)
            ) * f
        if k == 2:
            t = 1.0 - f
            return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0, -(
                3.0 * (a + 2.0) * t - 2.0 * (a + 3.0)
            ) * t
        t = 2.0 - f
        return a * (((t - 5.0) * t + 8.0) * t - 4.0), -a * ((3.0 * t - 10.0) * t + 8.0)
    if k == 0:
        t = 1.0 - f
        return t * t * t / 6.0, -0.5 * t * t
    if k == 1:
        return 2.0 / 3.0 - f * f * (2.0 - f) * 0.5, f * (1.5 * f - 2.0)
    if k == 2:
        t = 1.0 - f
        return 2.0 / 3.0 - t * t * (2.0 - t) * 0.5, -t * (1.5 * t - 2.0)
    return f * f * f / 6.0, 0.5 * f * f


@triton.jit
def _bump(d, MODE: tl.constexpr):
    """The same weight as a function of the distance between point and tap."""
    a = tl.abs(d)
    if MODE == 0:
        return tl.maximum(1.0 - a, 0.0)
    near, _near = _weight(a, 1, MODE)
    far, _far = _weight(a - 1.0, 0, MODE)
    return tl.where(a < 1.0, near, tl.where(a < 2.0, far, 0.0))


@triton.jit
def _point(theta, row, column, margin, H: tl.constexpr, W: tl.constexpr):
    """Output point (x, y) of pixels, and the source row and column."""
    unit: tl.constexpr = H if H > W else W
    pixel: tl.constexpr = 1.0 / unit
    x = (2 * column + 1 - W).to(tl.float32) * pixel
    y = (H - 1 - 2 * row).to(tl.float32) * pixel
    sx = tl.load(theta) * x + tl.load(theta + 1) * y + tl.load(theta + 2)
    sy = tl.load(theta + 3) * x + tl.load(theta + 4) * y + tl.load(theta + 5)
    # Points far outside are brought near, where they still see only zero: no integer overflows.
    far: tl.constexpr = 4.0 + 4.0 * (H + W)
    column_at = tl.minimum(tl.maximum(0.5 * (sx * unit + (W - 1)), -far), far) + margin
    row_at = tl.minimum(tl.maximum(0.5 * ((H - 1) - sy * unit), -far), far) + margin
    return x, y, row_at, column_at


@triton.jit
def _places(
    theta, versions, image_step, version_step, margin, H: tl.constexpr, W: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Which image, version and pixels a program has, and where in the source these lie."""
    n = (tl.program_id(0) // versions).to(tl.int64)  # beyond 2^31 pixels
    s = tl.program_id(0) % versions
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x, y, row_at, column_at = _point(
        theta + n * image_step + s * version_step, i // W, i % W, margin, H, W
    )
    r0, c0 = tl.floor(row_at), tl.floor(column_at)
    return n, s, i, x, y, r0, c0, row_at - r0, column_at - c0


@triton.jit
def forward(
    images, theta, out, versions, image_step, version_step, margin, H: tl.constexpr,
    W: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    n, s, i, _x, _y, r0, c0, fr, fc = _places(
        theta, versions, image_step, version_step, margin, H, W, BLOCK
    )
    keep = i < H * W
    low: tl.constexpr = 0 if MODE == 0 else -1
    taps: tl.constexpr = 2 if MODE == 0 else 4
    SH, SW = H + 2 * margin, W + 2 * margin
    for channel in range(C):
        source = images + (n * C + channel) * SH * SW
        total = tl.zeros([BLOCK], tl.float32)
        for a in tl.static_range(taps):
            wr, _dr = _weight(fr, a, MODE)
            r = r0.to(tl.int32) + (a + low)
            line = tl.zeros([BLOCK], tl.float32)
            for b in tl.static_range(taps):
                wc, _dc = _weight(fc, b, MODE)
                c = c0.to(tl.int32) + (b + low)
                inside = keep & (r >= 0) & (r < SH) & (c >= 0) & (c < SW)
                line += wc * tl.load(source + r * SW + c, mask=inside, other=0.0)
            total += wr * line
        target = out + ((n * versions + s) * C + channel) * H * W
        tl.store(target + i, total, mask=keep)


@triton.jit
def backward_theta(
    images, theta, grad_out, partial, versions, image_step, version_step, margin,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    n, s, i, x, y, r0, c0, fr, fc = _places(
        theta, versions, image_step, version_step, margin, H, W, BLOCK
    )
    keep = i < H * W
    low: tl.constexpr = 0 if MODE == 0 else -1
    taps: tl.constexpr = 2 if MODE == 0 else 4
    SH, SW = H + 2 * margin, W + 2 * margin
    to_row, to_column = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for channel in range(C):
        source = images + (n * C + channel) * SH * SW
        target = grad_out + ((n * versions + s) * C + channel) * H * W
        g = tl.load(target + i, mask=keep, other=0.0)
        for a in tl.static_range(taps):
            wr, dr = _weight(fr, a, MODE)
            r = r0.to(tl.int32) + (a + low)
            line = tl.zeros([BLOCK], tl.float32)
            slope = tl.zeros([BLOCK], tl.float32)
            for b in tl.static_range(taps):
                wc, dc = _weight(fc, b, MODE)
                c = c0.to(tl.int32) + (b + low)
                inside = keep & (r >= 0) & (r < SH) & (c >= 0) & (c < SW)
                value = tl.load(source + r * SW + c, mask=inside, other=0.0)
                line += wc * value
                slope += dc * value
            to_row += g * dr * line
            to_column += g * wr * slope
    half_unit: tl.constexpr = 0.5 * (H if H > W else W)
    gx, gy = to_column * half_unit, -to_row * half_unit
    at = partial + (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * 6
    tl.store(at, tl.sum(gx * x, 0))
    tl.store(at + 1, tl.sum(gx * y, 0))
    tl.store(at + 2, tl.sum(gx, 0))
    tl.store(at + 3, tl.sum(gy * x, 0))
    tl.store(at + 4, tl.sum(gy * y, 0))
    tl.store(at + 5, tl.sum(gy, 0))


@triton.jit
def backward_images(
    theta, grad_out, grad_images, versions, image_step, version_step, margin, H: tl.constexpr,
    W: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    n = (tl.program_id(0) // C).to(tl.int64)  # beyond 2^31 pixels
    channel = tl.program_id(0) % C
    SH, SW = H + 2 * margin, W + 2 * margin
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    keep = i < SH * SW
    r, c = i // SW, i % SW
    reach: tl.constexpr = 1.0 if MODE == 0 else 2.0
    total = tl.zeros([BLOCK], tl.float32)
    s = 0
    while s < versions:
        at = theta + n * image_step + s * version_step
        # From pixel to pixel the map is (column, row) -> (p column - q row, -u column + v row)
        # and a shift; where it is singular, everything is looked at.
        p, q, u, v = tl.load(at), tl.load(at + 1), tl.load(at + 3), tl.load(at + 4)
        det = p * v - q * u
        scale = 1.0 / tl.where(tl.abs(det) < 1e-12, 1e-12, det)
        _x, _y, row0, column0 = _point(at, 0 * i, 0 * i, margin, H, W)
        dc, dr = c.to(tl.float32) - column0, r.to(tl.float32) - row0
        wide = reach * (tl.abs(v) + tl.abs(q)) * tl.abs(scale) * 1.0001 + 1e-3
        tall = reach * (tl.abs(u) + tl.abs(p)) * tl.abs(scale) * 1.0001 + 1e-3
        left = tl.maximum(tl.ceil((v * dc + q * dr) * scale - wide), 0.0)
        top = tl.maximum(tl.ceil((u * dc + p * dr) * scale - tall), 0.0)
        columns = tl.minimum(2.0 * wide, W - 1.0).to(tl.int32) + 1
        rows = tl.minimum(2.0 * tall, H - 1.0).to(tl.int32) + 1
        left = tl.minimum(left, 1.0 * W).to(tl.int32)
        top = tl.minimum(top, 1.0 * H).to(tl.int32)
        source = grad_out + ((n * versions + s) * C + channel) * H * W
        a = 0
        while a < rows:
            row = top + a
            row_by, column_by = v * row - dr, -q * row - dc
            b = 0
            while b < columns:
                column = left + b
                inside = keep & (row < H) & (column < W)
                weight = _bump(row_by - u * column, MODE) * _bump(column_by + p * column, MODE)
                g = tl.load(source + row * W + column, mask=inside, other=0.0)
                total += weight * g
                b += 1
            a += 1
        s += 1
    tl.store(grad_images + (n * C + channel) * SH * SW + i, total, mask=keep)
