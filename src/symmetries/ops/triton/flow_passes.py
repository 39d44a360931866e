"""A whole flow of coupling splines in one kernel forward and one backward.

A program takes some points through all layers. What a layer leaves lies in buffers of all layers:
the next one reads it behind a barrier, and the backward pass needs it. How weights are packed
is described in ``flow_parts.py``.
"""

import triton
import triton.language as tl

from symmetries.ops.triton.flow_parts import _hidden, _lanes, _law, _place, _spline


@triton.jit
def _flow_forward(
    eta, bounds, projected, bias, packed, mask, base, u, units, statistics, parameters, out, n,
    stride, epsilon, KEEP: tl.constexpr, HALF: tl.constexpr, SHARE: tl.constexpr,
    MIN_SLOPE: tl.constexpr, UNIT: tl.constexpr, BINS: tl.constexpr, MIN_SCALE: tl.constexpr,
    UNIT_SCALE: tl.constexpr, LOG_2_PI: tl.constexpr, SAMPLES: tl.constexpr, DIM: tl.constexpr,
    LAYERS: tl.constexpr, WIDTH: tl.constexpr, ALIGN: tl.constexpr, DROP: tl.constexpr,
    OUT: tl.constexpr, AXES: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr, CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Log-density of ROWS points, and what the backward pass needs."""
    row, there, columns, inside, point, axis, bins = _lanes(n, WIDTH, AXES, LANES, ROWS, BLOCK)
    both, wide = there[:, None] & inside[None, :], tl.arange(0, OUT)
    free: tl.constexpr = 3 * BINS - 1
    most: tl.constexpr = (DIM + 1) // 2
    size: tl.constexpr = free * most
    total = tl.zeros([ROWS], tl.float32)
    for j in tl.static_range(DIM):
        scaled = tl.load(eta + row * DIM + j, mask=there, other=0.0) * (HALF / tl.load(bounds + j))
        tl.store(u + j * n + row, scaled, mask=there)
    for layer in range(LAYERS):
        first, bent, kept, start, shift = _place(layer, DIM, free, WIDTH, LAYERS, ALIGN)
        own = packed + start
        here = u + layer * DIM * n
        tl.debug_barrier()  # what other threads stored is read below
        g, _slope = _hidden(
            projected + layer * WIDTH, bias + layer * WIDTH, here, own, row, there, columns,
            inside, n, stride, first, kept, SAMPLES, most,
        )  # fmt: skip
        m = tl.sum(g, 1) / WIDTH
        centred = tl.where(inside[None, :], g - m[:, None], 0.0)
        s = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / WIDTH + epsilon)
        own += WIDTH * kept
        y = centred * s[:, None] * tl.load(own + columns, mask=inside, other=0.0)[None, :]
        y += tl.load(own + WIDTH + columns, mask=inside, other=0.0)[None, :]
        if DROP:
            at = row.to(tl.int64)[:, None] * (LAYERS * WIDTH) + layer * WIDTH + columns[None, :]
            y = tl.where(tl.load(mask + at, mask=both, other=0) != 0, y / KEEP, 0.0)
        left = units + (layer * n + row.to(tl.int64))[:, None] * WIDTH
        tl.store(left + columns[None, :], y, mask=both)
        tl.store(statistics + 2 * layer * n + row, m, mask=there)
        tl.store(statistics + (2 * layer + 1) * n + row, s, mask=there)
        tl.debug_barrier()
        own += 2 * WIDTH
        used = wide < free * bent
        found = tl.zeros([ROWS, OUT], tl.float32)
        for c in range(0, BLOCK, CHUNK):
            k = c + tl.arange(0, CHUNK)
            a = tl.load(left + k[None, :], mask=there[:, None] & (k < WIDTH)[None, :], other=0.0)
            b = tl.load(
                own + wide[None, :] * WIDTH + k[:, None],
                mask=used[None, :] & (k < WIDTH)[:, None], other=0.0,
            )  # fmt: skip
            found += tl.dot(a, b, input_precision=PRECISION)
        found += tl.load(packed + shift + wide, mask=used, other=0.0)[None, :]
        made = parameters + layer * n * size
        tl.store(
            made + row[:, None] * size + wide[None, :], found, mask=there[:, None] & used[None, :]
        )
        tl.debug_barrier()
        keep = (point < n) & (axis < bent)
        at = (first + 2 * axis) * n + point
        given = tl.load(here + at, mask=keep, other=0.0)
        x, _k, x0, y0, w, h, d0, d1, _sw, _sh, _rate = _spline(
            given, made, point * size + axis, bent, bins, keep, HALF, SHARE, MIN_SLOPE, UNIT, BINS
        )
        steep = h / w
        t = (x - x0) / w
        mixed = t * (1.0 - t)
        under = steep + (d0 + d1 - 2.0 * steep) * mixed
        slope = d1 * t * t + 2.0 * steep * mixed + d0 * (1.0 - t) * (1.0 - t)
        log_slope = 2.0 * tl.log(steep) + tl.log(slope) - 2.0 * tl.log(under)
        mapped = y0 + h * (steep * t * t + d0 * mixed) / under
        within = (given >= -HALF) & (given <= HALF)
        log_slope = tl.where(keep & within, log_slope, 0.0)
        tl.store(here + DIM * n + at, tl.where(within, mapped, given), mask=keep)
        other = (1 - first + 2 * axis) * n + point
        moved = (point < n) & (axis < kept)
        tl.store(here + DIM * n + other, tl.load(here + other, mask=moved, other=0.0), mask=moved)
        total += tl.sum(tl.reshape(log_slope, [ROWS, AXES]), 1)
    tl.debug_barrier()
    for j in tl.static_range(DIM):
        z, scale, _rate = _law(
            base, u, j, row, there, n, MIN_SCALE, UNIT_SCALE, SAMPLES, DIM, LAYERS
        )
        total += tl.log(HALF / tl.load(bounds + j)) - 0.5 * LOG_2_PI
        total -= 0.5 * z * z + tl.log(scale)
    tl.store(out + row, total, mask=there)


@triton.jit
def _flow_backward(
    projected, bias, packed, mask, base, u, statistics, parameters, grad, grad_projected,
    grad_base, grad_u, grad_parameters, partial, n, stride, KEEP: tl.constexpr,
    HALF: tl.constexpr, SHARE: tl.constexpr, MIN_SLOPE: tl.constexpr, UNIT: tl.constexpr,
    BINS: tl.constexpr, MIN_SCALE: tl.constexpr, UNIT_SCALE: tl.constexpr, SAMPLES: tl.constexpr,
    DIM: tl.constexpr, LAYERS: tl.constexpr, WIDTH: tl.constexpr, ALIGN: tl.constexpr,
    DROP: tl.constexpr, OUT: tl.constexpr, AXES: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of ROWS points; those to vectors and narrow matrices are sums over these rows."""
    row, there, columns, inside, point, axis, bins = _lanes(n, WIDTH, AXES, LANES, ROWS, BLOCK)
    both = there[:, None] & inside[None, :]
    free: tl.constexpr = 3 * BINS - 1
    most: tl.constexpr = (DIM + 1) // 2
    size: tl.constexpr = free * most
    g = tl.load(grad + row, mask=there, other=0.0)
    to_base = grad_base + row * (2 * DIM)
    for j in tl.static_range(DIM):
        z, scale, rate = _law(
            base, u, j, row, there, n, MIN_SCALE, UNIT_SCALE, SAMPLES, DIM, LAYERS
        )
        tl.store(grad_u + (LAYERS * DIM + j) * n + row, -g * z / scale, mask=there)
        tl.store(to_base + j, g * z / scale, mask=there)
        tl.store(to_base + DIM + j, g * (z * z - 1.0) / scale * rate, mask=there)
    to_log = tl.load(grad + point, mask=point < n, other=0.0)
    for back in range(LAYERS):
        layer = LAYERS - 1 - back
        first, bent, kept, start, _shift = _place(layer, DIM, free, WIDTH, LAYERS, ALIGN)
        own = packed + start
        here, to_here = u + layer * DIM * n, grad_u + layer * DIM * n
        made, to_made = parameters + layer * n * size, grad_parameters + layer * n * size
        tl.debug_barrier()  # what other threads stored is read below
        keep = (point < n) & (axis < bent)
        at = (first + 2 * axis) * n + point
        given = tl.load(here + at, mask=keep, other=0.0)
        to_y = tl.load(to_here + DIM * n + at, mask=keep, other=0.0)
        x, k, x0, _y0, w, h, d0, d1, share_w, share_h, rates = _spline(
            given, made, point * size + axis, bent, bins, keep, HALF, SHARE, MIN_SLOPE, UNIT, BINS
        )
        s = h / w
        bend = d0 + d1 - 2.0 * s
        t = tl.minimum(tl.maximum((x - x0) / w, 0.0), 1.0)
        mixed = t * (1.0 - t)
        under = s + bend * mixed
        over = s * t * t + d0 * mixed
        slope = d1 * t * t + 2.0 * s * mixed + d0 * (1.0 - t) * (1.0 - t)
        # d log f' / dx at fixed parameters
        bending = (2.0 * d1 * t - 2.0 * d0 * (1.0 - t) + 2.0 * s * (1.0 - 2.0 * t)) / slope
        bending = (bending - 2.0 * bend * (1.0 - 2.0 * t) / under) / w
        within = (given >= -HALF) & (given <= HALF)
        to_x = tl.where(within, to_y * s * s * slope / (under * under) + to_log * bending, to_y)
        tl.store(to_here + at, to_x, mask=keep)
        to_y, second = tl.where(within, to_y, 0.0), tl.where(within, to_log, 0.0)
        g_over = to_y * h / under
        g_under = -to_y * h * over / (under * under) - 2.0 * second / under
        g_slope = second / slope
        g_s = 2.0 * second / s + g_over * t * t + 2.0 * g_slope * mixed
        g_s += g_under * (1.0 - 2.0 * mixed)
        g_d0 = (g_over + g_under) * mixed + g_slope * (1.0 - t) * (1.0 - t)
        g_d1 = g_under * mixed + g_slope * t * t
        g_mixed = g_over * d0 + g_under * bend + 2.0 * g_slope * s
        g_t = 2.0 * g_over * s * t + 2.0 * g_slope * (d1 * t - d0 * (1.0 - t))
        g_t += g_mixed * (1.0 - 2.0 * t)
        g_x0, g_w, g_h = -g_t / w, -(g_t * t + g_s * s) / w, to_y * over / under + g_s / w
        behind, at_bin = bins[None, :] < k[:, None], bins[None, :] == k[:, None]
        to_w = tl.where(behind, g_x0[:, None], tl.where(at_bin, g_w[:, None], 0.0))
        to_h = tl.where(behind, to_y[:, None], tl.where(at_bin, g_h[:, None], 0.0))
        rest: tl.constexpr = 2.0 * HALF * (1.0 - SHARE * BINS)
        to_w = rest * share_w * (to_w - tl.sum(share_w * to_w, 1)[:, None])
        to_h = rest * share_h * (to_h - tl.sum(share_h * to_h, 1)[:, None])
        before = bins[None, :] == k[:, None] - 1
        to_d = tl.where(before, g_d0[:, None], tl.where(at_bin, g_d1[:, None], 0.0)) * rates
        used = (bins < BINS)[None, :] & keep[:, None]
        inner = (bins < BINS - 1)[None, :] & keep[:, None]
        place = to_made + (point * size + axis)[:, None] + bins[None, :] * bent
        tl.store(place, to_w, mask=used)
        tl.store(place + BINS * bent, to_h, mask=used)
        tl.store(place + 2 * BINS * bent, to_d, mask=inner)
        tl.debug_barrier()
        matrix = own + WIDTH * (kept + 2)
        dy = tl.zeros([ROWS, BLOCK], tl.float32)
        for c in range(0, OUT, CHUNK):
            wide = c + tl.arange(0, CHUNK)
            known = wide < free * bent
            a = tl.load(
                to_made + row[:, None] * size + wide[None, :],
                mask=there[:, None] & known[None, :], other=0.0,
            )  # fmt: skip
            b = tl.load(
                matrix + wide[:, None] * WIDTH + columns[None, :],
                mask=known[:, None] & inside[None, :], other=0.0,
            )  # fmt: skip
            dy += tl.dot(a, b, input_precision=PRECISION)
        units, rise = _hidden(
            projected + layer * WIDTH, bias + layer * WIDTH, here, own, row, there, columns,
            inside, n, stride, first, kept, SAMPLES, most,
        )  # fmt: skip
        middle = tl.load(statistics + 2 * layer * n + row, mask=there, other=0.0)[:, None]
        inverse = tl.load(statistics + (2 * layer + 1) * n + row, mask=there, other=0.0)[:, None]
        unit = tl.where(both, (units - middle) * inverse, 0.0)
        if DROP:
            at_mask = row.to(tl.int64)[:, None] * (LAYERS * WIDTH) + layer * WIDTH
            kept_units = tl.load(mask + at_mask + columns[None, :], mask=both, other=0)
            dy = tl.where(kept_units != 0, dy / KEEP, 0.0)
        sums = partial + (tl.program_id(0) * LAYERS + layer) * (most + 3) * WIDTH
        tl.store(sums + columns, tl.sum(dy * unit, 0), mask=inside)
        tl.store(sums + WIDTH + columns, tl.sum(dy, 0), mask=inside)
        d = dy * tl.load(own + WIDTH * kept + columns, mask=inside, other=0.0)[None, :]
        mean_d, along = tl.sum(d, 1) / WIDTH, tl.sum(d * unit, 1) / WIDTH
        d = inverse * (d - mean_d[:, None] - unit * along[:, None]) * rise
        d = tl.where(both, d, 0.0)
        tl.store(sums + 2 * WIDTH + columns, tl.sum(d, 0), mask=inside)
        target = grad_projected + row.to(tl.int64)[:, None] * (LAYERS * WIDTH) + layer * WIDTH
        tl.store(target + columns[None, :], d, mask=both)
        for j in tl.static_range(most):
            other = (1 - first + 2 * j) * n + row
            real = there & (j + 0 * row < kept)
            wanted = inside & (j + 0 * columns < kept)
            value = tl.load(here + other, mask=real, other=0.0)
            weight = tl.load(own + columns * kept + j, mask=wanted, other=0.0)
            tl.store(
                sums + 3 * WIDTH + columns * kept + j, tl.sum(d * value[:, None], 0), mask=wanted
            )
            given_u = tl.load(to_here + DIM * n + other, mask=real, other=0.0)
            tl.store(to_here + other, given_u + tl.sum(d * weight[None, :], 1), mask=real)


@triton.jit
def _flow_weights(
    grad_parameters, units, partial, n, STEPS: tl.constexpr, DIM: tl.constexpr,
    BINS: tl.constexpr, LAYERS: tl.constexpr, WIDTH: tl.constexpr, OUT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients to weights and biases of the splines' parameters: sums over some of the points."""
    layer, part = tl.program_id(0), tl.program_id(2)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wide = tl.arange(0, OUT)
    free: tl.constexpr = 3 * BINS - 1
    size: tl.constexpr = free * ((DIM + 1) // 2)
    used = wide < free * ((DIM + 1 - layer % 2) // 2)
    total, shift = tl.zeros([OUT, BLOCK], tl.float32), tl.zeros([OUT], tl.float32)
    for step in range(STEPS):
        row = (part * STEPS + step) * ROWS + tl.arange(0, ROWS)
        at = layer * n + row.to(tl.int64)
        a = tl.load(
            grad_parameters + at[None, :] * size + wide[:, None],
            mask=(row < n)[None, :] & used[:, None], other=0.0,
        )  # fmt: skip
        b = tl.load(
            units + at[:, None] * WIDTH + columns[None, :],
            mask=(row < n)[:, None] & (columns < WIDTH)[None, :], other=0.0,
        )  # fmt: skip
        total += tl.dot(a, b, input_precision=PRECISION)
        shift += tl.sum(a, 1)
    out = partial + (part * LAYERS + layer) * size * (WIDTH + 1)
    tl.store(
        out + wide[:, None] * WIDTH + columns[None, :], total,
        mask=used[:, None] & (columns < WIDTH)[None, :],
    )  # fmt: skip
    if tl.program_id(1) == 0:
        tl.store(out + size * WIDTH + wide, shift, mask=used)
