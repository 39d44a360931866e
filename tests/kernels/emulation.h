// What warp.cu needs of CUDA, on a CPU: threads for threads, barriers for barriers. Blocks run one
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

static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
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
