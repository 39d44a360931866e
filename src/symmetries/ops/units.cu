// Numbers eight at a time, and the gelu: what kernels of hidden units share.

#ifdef __CUDACC__  // else whoever includes this has them
__device__ __forceinline__ float power_of_two(float x) {
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
__device__ __forceinline__ float fast_exp(float x) { return power_of_two(1.4426950408889634f * x); }
__device__ __forceinline__ float fast_log(float x) {
  asm("lg2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return 0.6931471805599453f * x;
}
__device__ __forceinline__ float inverse(float x) {
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
__device__ __forceinline__ float inverse_root(float x) {
  asm("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
__device__ __forceinline__ int narrow(float low, float high) {  // to bfloat16
  int both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
#endif

__device__ __forceinline__ void load4(const float* from, float* to) {
  const float4 v = *(const float4*)from;
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
__device__ __forceinline__ void load8(const float* from, float* to) {
  load4(from, to);
  load4(from + 4, to + 4);
}
__device__ __forceinline__ void store8(float* to, const float* from) {
  *(float4*)to = float4{from[0], from[1], from[2], from[3]};
  *(float4*)(to + 4) = float4{from[4], from[5], from[6], from[7]};
}
// Whether the i-th of eight units is kept: a byte of each says so.
__device__ __forceinline__ bool stays(const int2& kept, int i) {
  return (i < 4 ? kept.x : kept.y) & (0xff << 8 * (i & 3));
}
__device__ __forceinline__ void widen(const int4& v, float* to) {
  const int words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float((unsigned)words[i] << 16);
    to[2 * i + 1] = __uint_as_float((unsigned)words[i] & 0xffff0000u);
  }
}

// gelu(h), and its slope; the normal distribution by Abramowitz and Stegun 7.1.26, off by 8e-8.
__device__ __forceinline__ float gelu(float h, float& slope) {
  const float density = power_of_two(h * (-0.7213475204444817f * h));  // exp(-h h / 2)
  const float t = inverse(1.0f + 0.2316418882f * fabsf(h));
  float tail = 0.7107068705f + t * (-0.726576014f + t * 0.5307027145f);
  tail = density * t * (0.127414796f + t * (-0.142248368f + t * tail));
  slope = (h < 0.0f ? tail : 1.0f - tail) + h * 0.3989422804014327f * density;
  return fmaxf(h, 0.0f) - fabsf(h) * tail;
}
