// Image warps of one picture per block, from shared memory.
//
// A picture is copied once, with a border of zeros, so that no tap needs a test; lanes of a warp
// take a tile of 8 x 4 pixels, and rows lie a length apart for which near pixels of such a tile,
// turned by any angle, are hardly ever in one bank. Sampling points come from the 2 x 3 map in
// registers. The gradient to an image is added up in shared memory as whole numbers, multiples of
// 2^-30 of the largest sum that its gradients can give: whole numbers are added without rounding, in
// any order, so results are the same in every run, and off by less than float32 would be.
//
// Set by the compiler: H, W (of the result), MARGIN (around the source), MODE (0 bilinear, 1 Keys, 2
// cubic B-spline), PITCH (length of rows in shared memory), WARPS, COLUMNS (tiles beside each other;
// a multiple of WARPS, or WARPS of it), TO_MAP, TO_IMAGES, FILTER (whether the source is made of
// images, H x W, by the prefilter of cubic B-splines), FOURS (rows of images are copied four numbers at
// a time). Blocks are images by channels by versions, of which each image has as many as maps; where
// images need a gradient, one block has all versions.

constexpr int SH = H + 2 * MARGIN, SW = W + 2 * MARGIN;
constexpr int INSET = FILTER ? MARGIN : 0;  // of the images in the source
constexpr int IH = SH - 2 * INSET, IW = SW - 2 * INSET;  // of the images
constexpr int TAPS = MODE == 0 ? 2 : 4;
constexpr int BORDER = TAPS;  // of zeros
constexpr int LOW = MODE == 0 ? 0 : -1;  // the first tap
constexpr int ACROSS = WARPS < COLUMNS ? COLUMNS / WARPS : 1;  // tiles of a warp beside each other
constexpr int TILE_ROWS = WARPS < COLUMNS ? 1 : WARPS / COLUMNS;  // below each other, at once
constexpr int STEPS = (H + 4 * TILE_ROWS - 1) / (4 * TILE_ROWS);
constexpr bool EVEN = STEPS * 4 * TILE_ROWS == H;  // all rows of all tiles are pixels
constexpr int THREADS = 32 * WARPS;
constexpr int ROOM = ((SH + 2 * BORDER) * PITCH + 3) / 4 * 4;  // of a source
constexpr int ACTIVE = MODE > 0 ? 1024 : TO_IMAGES ? 1536 : 2048;  // threads, at most
// Blocks of a multiprocessor, if these or all shared memory are in use: registers for those.
constexpr int ROOMS = TO_MAP + TO_IMAGES > 1 ? 2 : 1;
constexpr int BY_MEMORY = 227 * 256 / (ROOMS * ROOM + 512), BY_THREADS = ACTIVE / THREADS;
constexpr int BLOCKS = BY_MEMORY < 1 ? 1 : BY_MEMORY < BY_THREADS ? BY_MEMORY : BY_THREADS;
// Pixels of a thread that are worked on at once.
constexpr int FORWARD_TURNS = MODE > 0 ? 1 : 8;
constexpr int BACKWARD_TURNS = MODE == 0 ? STEPS : TO_IMAGES ? 1 : 2;
constexpr float UNIT = H > W ? H : W;
constexpr float DOWN = 8 * TILE_ROWS / UNIT;  // from a tile to the next one of the same thread
constexpr float ROUND = 12582912.0f;  // 1.5 x 2^23: a sum with it is a whole number, in its last bits
constexpr unsigned ROUND_BITS = 0x4B400000u;

__device__ __forceinline__ void weights(float f, float* w, float* d) {
  const float t = 1.0f - f;
  if (MODE == 1) {
    const float a = -0.75f, p = a * f * t;
    w[0] = p * t;
    w[1] = ((a + 2.0f) * f - (a + 3.0f)) * (f * f) + 1.0f;
    w[2] = (1.0f - w[1]) - p;  // all four add up to one, and the slopes to zero
    w[3] = p * f;
    d[0] = a * t * (1.0f - 3.0f * f);
    d[1] = (3.0f * (a + 2.0f) * f - 2.0f * (a + 3.0f)) * f;
    d[3] = a * f * (2.0f - 3.0f * f);
  } else {
    const float tt = t * t, ff = f * f;
    w[0] = tt * (t * (1.0f / 6.0f));
    w[1] = ff * (0.5f * f - 1.0f) + 2.0f / 3.0f;
    w[3] = ff * (f * (1.0f / 6.0f));
    w[2] = (1.0f - w[1]) - (w[0] + w[3]);
    d[0] = -0.5f * tt;
    d[1] = f * (1.5f * f - 2.0f);
    d[3] = 0.5f * ff;
  }
  d[2] = -(d[0] + d[1] + d[3]);
}

// Coefficients of the cubic B-spline through values with zeros around them: read(k) is value k and
// write(k, c) takes coefficient k. Beyond the ends they are those there times powers of the pole.
constexpr float POLE = -0.2679491924311227f;
template <int LENGTH, typename Read, typename Write>
__device__ __forceinline__ void filter(float* row, int step, Read read, Write write) {
  constexpr int PART = LENGTH <= 32 ? LENGTH : 16;  // values in registers
  constexpr bool EVENLY = LENGTH % PART == 0;
  constexpr int LAST = (LENGTH - 1) / PART * PART;
  float part[PART];
  float value = 0.0f;
#pragma unroll 1
  for (int first = 0; first < LENGTH; first += PART) {
#pragma unroll
    for (int k = 0; k < PART; ++k)
      if (EVENLY || first + k < LENGTH) part[k] = read(first + k);
#pragma unroll
    for (int k = 0; k < PART; ++k)
      if (EVENLY || first + k < LENGTH) part[k] = value = 6.0f * part[k] + POLE * value;
    if (PART < LENGTH)
#pragma unroll
      for (int k = 0; k < PART; ++k)
        if (EVENLY || first + k < LENGTH) row[(first + k) * step] = part[k];
  }
  value *= POLE * POLE / (POLE * POLE - 1.0f);  // all that comes beyond the last
#pragma unroll 1
  for (int first = LAST; first >= 0; first -= PART) {
    if (PART < LENGTH)
#pragma unroll
      for (int k = 0; k < PART; ++k)
        if (EVENLY || first + k < LENGTH) part[k] = row[(first + k) * step];
#pragma unroll
    for (int k = PART - 1; k >= 0; --k)
      if (EVENLY || first + k < LENGTH) part[k] = value = POLE * (value - part[k]);
#pragma unroll
    for (int k = 0; k < PART; ++k)
      if (EVENLY || first + k < LENGTH) write(first + k, part[k]);
  }
}

// What lies around: powers of the pole times the ends, then zeros; `row` is at the first coefficient.
template <int LENGTH>
__device__ __forceinline__ void surround(float* row, int step) {
  float first = row[0], last = row[(LENGTH - 1) * step];
#pragma unroll
  for (int k = 1; k <= MARGIN + BORDER; ++k) {
    first = k <= MARGIN ? first * POLE : 0.0f;
    last = k <= MARGIN ? last * POLE : 0.0f;
    row[-k * step] = first;
    row[(LENGTH - 1 + k) * step] = last;
  }
}

// The transpose: what the ends get from around them.
template <int LENGTH, typename Read>
__device__ __forceinline__ void gathered(float* ends, Read read) {
  ends[0] = ends[1] = 0.0f;
#pragma unroll
  for (int k = MARGIN; k > 0; --k) {
    ends[0] = POLE * (ends[0] + read(-k));
    ends[1] = POLE * (ends[1] + read(LENGTH - 1 + k));
  }
}

// A picture with its border of zeros; `at` points behind the border.
__device__ __forceinline__ void copy_source(const float* __restrict__ picture, float* at) {
  if (FILTER) {
    float* first = at + INSET * PITCH + INSET;
    for (int i = threadIdx.x; i < IW; i += THREADS) {
      float* column = first + i;
      filter<IH>(
          column, PITCH, [=](int k) { return __ldg(picture + k * IW + i); },
          [=](int k, float value) { column[k * PITCH] = value; });
      surround<IH>(column, PITCH);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SH + 2 * BORDER; i += THREADS) {
      float* row = first + (i - INSET - BORDER) * PITCH;
      filter<IW>(
          row, 1, [=](int k) { return row[k]; }, [=](int k, float value) { row[k] = value; });
      surround<IW>(row, 1);
    }
    return;
  }
  if (FOURS) {
    constexpr int FULL = SW + 2 * BORDER, LINE = IW / 4, ALL = IH * LINE;
#pragma unroll
    for (int j = 0; j < 2 * BORDER * FULL; j += THREADS) {
      const int i = j + threadIdx.x, r = i / FULL;
      if (i < 2 * BORDER * FULL) at[(r - BORDER + (r < BORDER ? 0 : SH)) * PITCH + i % FULL - BORDER] = 0.0f;
    }
#pragma unroll
    for (int j = 0; j < 2 * BORDER * SH; j += THREADS) {
      const int i = j + threadIdx.x, c = i % (2 * BORDER);
      if (i < 2 * BORDER * SH) at[i / (2 * BORDER) * PITCH + c - BORDER + (c < BORDER ? 0 : SW)] = 0.0f;
    }
#pragma unroll
    for (int j = 0; j < ALL; j += THREADS) {
      const int i = j + threadIdx.x;
      if (j + THREADS <= ALL || i < ALL) {
        const float4 four = __ldg(reinterpret_cast<const float4*>(picture) + i);
        float* to = at + i / LINE * PITCH + 4 * (i % LINE);
        to[0] = four.x;
        to[1] = four.y;
        to[2] = four.z;
        to[3] = four.w;
      }
    }
    return;
  }
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int row = warp - BORDER, column = lane - BORDER;
  const float* from = picture + (row * IW + column);
  float* to = at + (row * PITCH + column);
  asm("" : "+l"(from));  // one address for all
#pragma unroll
  for (int r = 0; r < SH + 2 * BORDER; r += WARPS) {
#pragma unroll
    for (int c = 0; c < SW + 2 * BORDER; c += 32) {
      const bool inside = (unsigned)(row + r) < IH && (unsigned)(column + c) < IW;
      const float value = inside ? __ldg(from + (r * IW + c)) : 0.0f;
      const bool rows = r + WARPS <= SH + 2 * BORDER || row + r < SH + BORDER;
      const bool columns = c + 32 <= SW + 2 * BORDER || column + c < SW + BORDER;
      if (rows && columns) to[r * PITCH + c] = value;
    }
  }
}

struct Map {
  float c, ck, r, rk;  // of this thread's pixel k: source column c + ck k, source row r + rk k
  __device__ __forceinline__ Map(const float* __restrict__ t, float x, float y) {
    c = 0.5f * UNIT * (t[0] * x + t[1] * y + t[2]) + (0.5f * (W - 1) + MARGIN);
    r = -0.5f * UNIT * (t[3] * x + t[4] * y + t[5]) + (0.5f * (H - 1) + MARGIN);
    ck = -0.5f * UNIT * DOWN * t[1];
    rk = 0.5f * UNIT * DOWN * t[4];
  }
  // Whole and fractional part of the point that pixel k sees; points outside stay in the border.
  __device__ __forceinline__ int point(float k, float& fr, float& fc, bool& inside) const {
    const float beyond = 0.5f * TAPS + 0.5f;
    const float ca = ck * k + c, ra = rk * k + r;
    const float cb = fminf(fmaxf(ca, -beyond), SW - 1 + beyond);
    const float rb = fminf(fmaxf(ra, -beyond), SH - 1 + beyond);
    inside = ca == cb && ra == rb;
    // Added to ROUND and rounded down: no conversion, which is slow, is needed.
    const float c0 = __fadd_rd(cb, ROUND), r0 = __fadd_rd(rb, ROUND);
    fc = cb - (c0 - ROUND);
    fr = rb - (r0 - ROUND);
    unsigned at = __float_as_uint(r0) * PITCH + __float_as_uint(c0);
    at -= ROUND_BITS * (PITCH + 1u);
    asm("" : "+r"(at));  // once, not again for each tap
    return (int)at;
  }
};

__device__ __forceinline__ float height_of(int row) { return (H - 1 - 2 * row) * (1.0f / UNIT); }

// Which pixels a thread takes: `column(j)`, and rows from `first` on.
struct Pixels {
  int left, first;
  __device__ __forceinline__ Pixels() {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    left = (WARPS < COLUMNS ? warp : warp % COLUMNS) * 8 + (lane & 7);
    first = (WARPS < COLUMNS ? 0 : warp / COLUMNS) * 4 + (lane >> 3);
  }
  __device__ __forceinline__ int column(int j) const { return left + j * 8 * WARPS; }
  __device__ __forceinline__ float x(int j) const { return (2 * column(j) + 1 - W) * (1.0f / UNIT); }
  __device__ __forceinline__ bool inside(int j, int k) const {
    return column(j) < W && (EVEN || first + 4 * TILE_ROWS * k < H);
  }
  __device__ __forceinline__ int place(int j, int k) const {
    return (first + 4 * TILE_ROWS * k) * W + column(j);
  }
};

// Numbers of a block's image, by channels, and of its first result.
struct Place {
  long long image, picture;
  __device__ __forceinline__ Place(int versions) {
    const unsigned channels = gridDim.y, channel = blockIdx.y;
    image = (long long)blockIdx.x * channels + channel;
    picture = ((long long)blockIdx.x * versions + blockIdx.z) * channels + channel;
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
warp_forward(const float* __restrict__ images, const float* __restrict__ theta,
             float* __restrict__ out, int versions, int image_step, int version_step) {
  extern __shared__ float memory[];
  float* source = memory + BORDER * PITCH + BORDER;
  const Pixels pixels;
  const Place place(versions);
  copy_source(images + place.image * (IH * IW), source);
  const float* t = theta + ((long long)blockIdx.x * image_step + (int)blockIdx.z * version_step);
  float* target = out + (place.picture * (H * W) + pixels.place(0, 0));
  asm("" : "+l"(target));  // one address for all
  const float y = height_of(pixels.first);
  __syncthreads();
#pragma unroll
  for (int j = 0; j < ACROSS; ++j) {
    const Map map(t, pixels.x(j), y);
#pragma unroll (FORWARD_TURNS)
    for (int k = 0; k < STEPS; ++k) {
      float fr, fc, value;
      bool unused;
      const float* at = source + map.point(k, fr, fc, unused);
      if (MODE == 0) {
        const float top = at[0] + fc * (at[1] - at[0]);
        const float bottom = at[PITCH] + fc * (at[PITCH + 1] - at[PITCH]);
        value = top + fr * (bottom - top);
      } else {
        float wr[4], wc[4], slopes[4];
        weights(fr, wr, slopes);
        weights(fc, wc, slopes);
        value = 0.0f;
#pragma unroll
        for (int a = 0; a < 4; ++a) {
          const float* line = at + (a + LOW) * PITCH + LOW;
          value += wr[a] * (wc[0] * line[0] + wc[1] * line[1] + wc[2] * line[2] + wc[3] * line[3]);
        }
      }
      float* to = target + (pixels.place(j, k) - pixels.place(0, 0));
      if (pixels.inside(j, k)) __stwb(to, value);
    }
  }
}

// Eight sums over a warp: afterwards lane 4 j holds sum j.
__device__ __forceinline__ float eight_sums(float* v) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int count = 4, width = 16; count > 0; count >>= 1, width >>= 1) {
    const bool upper = lane & width;
#pragma unroll
    for (int j = 0; j < count; ++j) {
      const float given = upper ? v[j] : v[j + count];
      v[j] = (upper ? v[j + count] : v[j]) + __shfl_xor_sync(0xffffffffu, given, width);
    }
  }
  v[0] += __shfl_xor_sync(0xffffffffu, v[0], 2);
  return v[0] + __shfl_xor_sync(0xffffffffu, v[0], 1);
}

// The largest number of a block; `parts` has a place for each warp.
__device__ __forceinline__ unsigned block_max(unsigned value, unsigned* parts) {
#pragma unroll
  for (int width = 16; width > 0; width >>= 1)
    value = max(value, __shfl_xor_sync(0xffffffffu, value, width));
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = value;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < WARPS; ++w) value = max(value, parts[w]);
  return value;
}

// Units of whole numbers, powers of two, in which no sum of gradients can be too large.
struct Units {
  float scale, inverse;  // units of one, and one in units; NaN if a gradient is not finite
  __device__ __forceinline__ Units(const float* __restrict__ t, unsigned largest) {
    // From pixel to pixel the map is (column, row) -> (p column - q row, -u column + v row) and a
    // shift; so many pixels, at most, have one pixel of the source among their taps.
    const float p = t[0], q = t[1], u = t[3], v = t[4];
    const float reach = __fdividef(0.5f * TAPS * 1.0001f, fmaxf(fabsf(p * v - q * u), 1e-12f));
    const int across = (int)fminf(2.0f * reach * (fabsf(v) + fabsf(q)) + 1e-2f, W - 1.0f) + 1;
    const int down = (int)fminf(2.0f * reach * (fabsf(u) + fabsf(p)) + 1e-2f, H - 1.0f) + 1;
    const int exponent = __float_as_uint(__uint_as_float(largest) * (across * down)) >> 23;
    const int field = min(283 - exponent, 253);
    scale = __uint_as_float((unsigned)field << 23);
    inverse = __uint_as_float(exponent < 255 ? (unsigned)(254 - field) << 23 : 0x7fc00000u);
  }
};

__device__ __forceinline__ void add_whole(float* at, float value) {
  atomicAdd(reinterpret_cast<int*>(at), __float2int_rn(value));
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
warp_backward(const float* __restrict__ images, const float* __restrict__ theta,
              const float* __restrict__ grad_out, float* __restrict__ grad_images,
              float* __restrict__ grad_theta, int versions, int image_step, int version_step) {
  extern __shared__ float memory[];
  __shared__ float parts[WARPS * 8];
  __shared__ unsigned most[WARPS];
  float* source = memory + BORDER * PITCH + BORDER;
  float* sums = source + (TO_MAP ? ROOM : 0);  // of gradients to the source
  const Pixels pixels;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const Place place(versions);
  const float y0 = height_of(pixels.first);
  // With images a block has all versions of one (blockIdx.z is zero), otherwise one.
  const int s0 = blockIdx.z, s1 = TO_IMAGES ? versions : s0 + 1;
  for (int s = s0; s < s1; ++s) {
    const float* t = theta + ((long long)blockIdx.x * image_step + s * version_step);
    const long long picture = place.picture + (TO_IMAGES ? s * (long long)gridDim.y : 0);
    const float* given = grad_out + (picture * (H * W) + pixels.place(0, 0));
    asm("" : "+l"(given));  // one address for all
    float g[ACROSS][STEPS];
    unsigned largest = 0;
    if (MODE == 0 || TO_IMAGES) {
#pragma unroll
      for (int j = 0; j < ACROSS; ++j)
#pragma unroll
        for (int k = 0; k < STEPS; ++k)
          g[j][k] = pixels.inside(j, k) ? __ldg(given + (pixels.place(j, k) - pixels.place(0, 0))) : 0.0f;
    }
    if (s > s0) __syncthreads();
    if (TO_IMAGES) {
      int4* cells = reinterpret_cast<int4*>(memory + (TO_MAP ? ROOM : 0)) + threadIdx.x;
#pragma unroll
      for (int i = 0; i < ROOM / 4; i += THREADS)
        if (i + THREADS <= ROOM / 4 || i + threadIdx.x < ROOM / 4) cells[i] = make_int4(0, 0, 0, 0);
    }
    if (TO_MAP && s == s0) copy_source(images + place.image * (IH * IW), source);
    if (TO_IMAGES) {
#pragma unroll
      for (int j = 0; j < ACROSS; ++j)
#pragma unroll
        for (int k = 0; k < STEPS; ++k) largest = max(largest, __float_as_uint(fabsf(g[j][k])));
      largest = block_max(largest, most);
    } else {
      __syncthreads();
    }
    const Units units(t, largest);
    if (TO_IMAGES && MODE == 0) {  // from here on in these units, also for the map
#pragma unroll
      for (int j = 0; j < ACROSS; ++j)
#pragma unroll
        for (int k = 0; k < STEPS; ++k) g[j][k] *= units.scale;
    }
    float six[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
      const float x = pixels.x(j);
      const Map map(t, x, y0);
      float to_column = 0.0f, to_column_k = 0.0f, to_row = 0.0f, to_row_k = 0.0f;
      float next = MODE > 0 && pixels.inside(j, 0) ? __ldg(given + (pixels.place(j, 0) - pixels.place(0, 0))) : 0.0f;
#pragma unroll (BACKWARD_TURNS)
      for (int k = 0; k < STEPS; ++k) {
        const float grad = MODE == 0 ? g[MODE == 0 ? j : 0][MODE == 0 ? k : 0]
                           : TO_IMAGES ? next * units.scale : next;
        if (MODE > 0 && k + 1 < STEPS)
          next = pixels.inside(j, k + 1) ? __ldg(given + (pixels.place(j, k + 1) - pixels.place(0, 0))) : 0.0f;
        float fr, fc;
        bool inside;
        const int at = map.point(k, fr, fc, inside);
        float wr[4], wc[4], dr[4], dc[4];
        if (MODE != 0) {
          weights(fr, wr, dr);
          weights(fc, wc, dc);
        }
        if (TO_MAP) {
          const float* l = source + at;
          float by_row = 0.0f, by_column = 0.0f;
          if (MODE == 0) {
            const float along = l[1] - l[0], mixed = l[PITCH + 1] - l[PITCH] - along;
            by_row = l[PITCH] - l[0] + fc * mixed;
            by_column = along + fr * mixed;
          } else {
            l += LOW * PITCH + LOW;
#pragma unroll
            for (int a = 0; a < 4; ++a, l += PITCH) {
              by_row += dr[a] * (wc[0] * l[0] + wc[1] * l[1] + wc[2] * l[2] + wc[3] * l[3]);
              by_column += wr[a] * (dc[0] * l[0] + dc[1] * l[1] + dc[2] * l[2] + dc[3] * l[3]);
            }
          }
          const float grad_k = grad * k;
          to_row += grad * by_row;
          to_row_k += grad_k * by_row;
          to_column += grad * by_column;
          to_column_k += grad_k * by_column;
        }
        if (TO_IMAGES && inside) {
          float* l = sums + at;
          if (MODE == 0) {
            const float right = grad * fc, left = grad - right;
            const float lower_right = right * fr, lower_left = left * fr;
            add_whole(l, left - lower_left);
            add_whole(l + 1, right - lower_right);
            add_whole(l + PITCH, lower_left);
            add_whole(l + PITCH + 1, lower_right);
          } else {
            l += LOW * PITCH + LOW;
#pragma unroll
            for (int a = 0; a < 4; ++a)
#pragma unroll
              for (int b = 0; b < 4; ++b) add_whole(l + a * PITCH + b, grad * wr[a] * wc[b]);
          }
        }
      }
      const float half = 0.5f * UNIT * (TO_IMAGES ? units.inverse : 1.0f);
      six[0] += half * x * to_column;
      six[1] += half * (y0 * to_column - DOWN * to_column_k);
      six[2] += half * to_column;
      six[3] -= half * x * to_row;
      six[4] -= half * (y0 * to_row - DOWN * to_row_k);
      six[5] -= half * to_row;
    }
    if (TO_MAP) {
      const float sum = eight_sums(six);
      if ((lane & 3) == 0) parts[warp * 8 + (lane >> 2)] = sum;
    }
    __syncthreads();
    if (TO_MAP && threadIdx.x < 6) {
      float total = 0.0f;
#pragma unroll
      for (int w = 0; w < WARPS; ++w) total += parts[w * 8 + threadIdx.x];
      grad_theta[picture * 6 + threadIdx.x] = total;
    }
    if (TO_IMAGES) {
      float* target = grad_images + place.image * (IH * IW);
      if (FILTER) {  // the transpose of the prefilter, which is symmetric but for what lies around
        for (int i = threadIdx.x; i < SH; i += THREADS) {
          float* row = sums + i * PITCH + INSET;
          auto whole = [=](int k) { return __float_as_int(row[k]) * units.inverse; };
          float ends[2];
          gathered<IW>(ends, whole);
          filter<IW>(
              row, 1, [=](int k) { return whole(k) + (k == 0 ? ends[0] : 0.0f) + (k == IW - 1 ? ends[1] : 0.0f); },
              [=](int k, float value) { row[k] = value; });
        }
        __syncthreads();
        for (int i = threadIdx.x; i < IW; i += THREADS) {
          float* column = sums + INSET * PITCH + INSET + i;
          auto at = [=](int k) { return column[k * PITCH]; };
          float ends[2];
          gathered<IH>(ends, at);
          filter<IH>(
              column, PITCH, [=](int k) { return at(k) + (k == 0 ? ends[0] : 0.0f) + (k == IH - 1 ? ends[1] : 0.0f); },
              [=](int k, float value) {
                if (s > s0) target[k * IW + i] += value;
                else target[k * IW + i] = value;
              });
        }
        continue;
      }
      const float* from = sums + (warp * PITCH + lane);
      float* to = target + (warp * IW + lane);
      asm("" : "+l"(to));
      auto each = [=](auto write) {
#pragma unroll
        for (int r = 0; r < IH; r += WARPS)
#pragma unroll
          for (int c = 0; c < IW; c += 32)
            if ((IH % WARPS == 0 || warp + r < IH) && (c + 32 <= IW || lane + c < IW))
              write(to + (r * IW + c), __float_as_int(from[r * PITCH + c]) * units.inverse);
      };
      if (s == s0) each([](float* at, float value) { __stwb(at, value); });
      else each([](float* at, float value) { __stwb(at, __ldcg(at) + value); });
    }
  }
}
