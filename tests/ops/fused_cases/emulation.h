// What warp.cu and flow.cu need of CUDA, on a CPU: threads for threads, barriers for barriers. Blocks run one
// after another; shared memory is exactly as long as asked for, so that sanitizers see every slip.
#include <pthread.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

struct Index {
  unsigned x, y, z;
};
struct int2 {
  int x, y;
};
struct int4 {
  int x, y, z, w;
};
struct float4 {
  float x, y, z, w;
};
static thread_local Index threadIdx;
static Index blockIdx, gridDim;
static float* memory;
static pthread_barrier_t whole_block;
static std::vector<pthread_barrier_t> warps;
static std::vector<unsigned> lanes;

#define __device__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static
#define __launch_bounds__(threads, blocks)
#define __ldg(pointer) (*(pointer))
#define __fdividef(a, b) ((a) / (b))
#define __ldcg(pointer) (*(pointer))
#define __stwb(pointer, value) (*(pointer) = (value))

#define __align__(bytes) alignas(bytes)

static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline void __syncwarp() { pthread_barrier_wait(&warps[threadIdx.x >> 5]); }
static inline void __syncthreads() { pthread_barrier_wait(&whole_block); }
static inline unsigned __float_as_uint(float value) {
  unsigned bits;
  memcpy(&bits, &value, 4);
  return bits;
}
static inline int __float_as_int(float value) { return (int)__float_as_uint(value); }
static inline float __uint_as_float(unsigned bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
static inline float __fadd_rd(float a, float b) { return (float)std::floor((double)a + (double)b); }
static inline int __float2int_rn(float value) { return value != value ? 0 : (int)lrintf(value); }
static inline void atomicAdd(int* at, int value) { __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
static inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline unsigned __shfl_xor_sync(unsigned, unsigned value, int by) {
  pthread_barrier_t* warp = &warps[threadIdx.x >> 5];
  lanes[threadIdx.x] = value;
  pthread_barrier_wait(warp);
  value = lanes[threadIdx.x ^ by];
  pthread_barrier_wait(warp);
  return value;
}
static inline float __shfl_xor_sync(unsigned mask, float value, int by) {
  return __uint_as_float(__shfl_xor_sync(mask, __float_as_uint(value), by));
}

static inline float __shfl_sync(unsigned, float value, int from) {
  pthread_barrier_t* warp = &warps[threadIdx.x >> 5];
  lanes[threadIdx.x] = __float_as_uint(value);
  pthread_barrier_wait(warp);
  value = __uint_as_float(lanes[(threadIdx.x & ~31u) + from]);
  pthread_barrier_wait(warp);
  return value;
}

static inline float power_of_two(float x) { return exp2f(x); }
static inline float fast_exp(float x) { return expf(x); }
static inline float fast_log(float x) { return logf(x); }
static inline float inverse(float x) { return 1.0f / x; }
static inline float inverse_root(float x) { return 1.0f / sqrtf(x); }
static inline int narrow(float low, float high) {
  const auto half = [](float value) {
    const unsigned bits = __float_as_uint(value);
    return value != value ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  };
  return (int)(half(low) | half(high) << 16);
}

// Products of tensor cores, m16n8k8: c (16, 8) += a (16, 8) b (8, 8), in their lanes' order.
static std::vector<float> left_sides, right_sides;
static inline unsigned to_tf32(float value) { return __float_as_uint(value); }
static inline void multiply(float* c, const unsigned* a, unsigned b0, unsigned b1) {
  const unsigned thread = threadIdx.x, first = thread & ~31u, g = (thread & 31) >> 2, q = thread & 3;
  for (int i = 0; i < 4; ++i) left_sides[4 * thread + i] = __uint_as_float(a[i]);
  right_sides[2 * thread] = __uint_as_float(b0), right_sides[2 * thread + 1] = __uint_as_float(b1);
  pthread_barrier_wait(&warps[thread >> 5]);
  for (int i = 0; i < 4; ++i)
    for (unsigned k = 0; k < 8; ++k) {
      const unsigned from = first + 4 * g + k % 4, to = first + 4 * (2 * q + i % 2) + k % 4;
      c[i] += left_sides[4 * from + i / 2 + k / 4 * 2] * right_sides[2 * to + k / 4];
    }
  pthread_barrier_wait(&warps[thread >> 5]);
}

static std::vector<float> read_all(const char* name) {
  FILE* file = fopen(name, "rb");
  fseek(file, 0, SEEK_END);
  std::vector<float> values(ftell(file) / 4);
  rewind(file);
  if (fread(values.data(), 4, values.size(), file) != values.size()) exit(1);
  fclose(file);
  return values;
}
static void write_all(const char* name, const std::vector<float>& values) {
  FILE* file = fopen(name, "wb");
  fwrite(values.data(), 4, values.size(), file);
  fclose(file);
}
template <typename Kernel>
static void launch(unsigned blocks, unsigned channels, unsigned versions, unsigned threads, size_t shared, Kernel kernel) {
  pthread_barrier_init(&whole_block, nullptr, threads);
  warps.resize(threads / 32);
  lanes.resize(threads);
  left_sides.resize(4 * threads), right_sides.resize(2 * threads);
  for (auto& warp : warps) pthread_barrier_init(&warp, nullptr, 32);
  gridDim = {blocks, channels, versions};
  for (unsigned block = 0; block < blocks * channels * versions; ++block) {
      blockIdx = {block % blocks, block / blocks % channels, block / blocks / channels};
      if (posix_memalign((void**)&memory, 16, shared)) exit(1);
      memset(memory, 0x7f, shared);
      std::vector<std::thread> all;
      for (unsigned t = 0; t < threads; ++t)
        all.emplace_back([t, &kernel] {
          threadIdx = {t, 0, 0};
          kernel();
        });
      for (auto& each : all) each.join();
      free(memory);
    }
}
