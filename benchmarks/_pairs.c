/* Value and gradient of the unbiased energy and Gaussian-kernel scores, summed over observations.
 *
 * The limit that the JAX code is measured against: one thread, float32, each pair of draws visited
 * once, coordinate-major arrays so that the inner loops run over draws and vectorise.
 *
 *   gcc -O3 -march=native -ffast-math -shared -fPIC _pairs.c -o build/pairs.so -lm
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* phi(s) and 2 phi'(s) of a squared distance s, for a run of `len` pairs; phi is summed. */
static float energy_run(int len, const float *s, float *slope) {
    float sum = 0.0f;
    for (int k = 0; k < len; ++k) {
        float r = sqrtf(s[k]);
        sum += r;
        slope[k] = s[k] > 0.0f ? 1.0f / r : 0.0f;
    }
    return sum;
}

static float gaussian_run(int len, const float *s, float *slope, float precision) {
    float sum = 0.0f;
    for (int k = 0; k < len; ++k) {
        float v = expf(-0.5f * precision * s[k]);
        sum += v;
        slope[k] = -precision * v;
    }
    return sum;
}

static float run(int kind, float precision, int len, const float *s, float *slope) {
    return kind == 0 ? energy_run(len, s, slope) : gaussian_run(len, s, slope, precision);
}

static void squared(int d, int m, int from, const float *x, const float *point, int stride,
                    float *s) {
    memset(s + from, 0, sizeof(float) * (size_t)(m - from));
    for (int c = 0; c < d; ++c) {
        const float *row = x + (size_t)c * m;
        const float p = point[(size_t)c * stride];
        for (int k = from; k < m; ++k) {
            float diff = row[k] - p;
            s[k] += diff * diff;
        }
    }
}

/* x is (d, m), y is (d, n), gradient is (d, m); kind 0 is energy with beta = 1, kind 1 Gaussian. */
float score(int kind, float bandwidth, int m, int n, int d, const float *x, const float *y,
            float *gradient) {
    const float sign = kind == 0 ? 1.0f : -1.0f;
    const float precision = 1.0f / (bandwidth * bandwidth);
    const float inner = -sign * 2.0f * (float)n / ((float)m * (float)(m - 1)); /* per pair j < k */
    const float outer = sign * 2.0f / (float)m;
    float *s = malloc(sizeof(float) * (size_t)m), *slope = malloc(sizeof(float) * (size_t)m);
    float total = 0.0f;
    memset(gradient, 0, sizeof(float) * (size_t)m * (size_t)d);
    for (int j = 0; j + 1 < m; ++j) {
        squared(d, m, j + 1, x, x + j, m, s);
        total += inner * run(kind, precision, m - j - 1, s + j + 1, slope + j + 1);
        for (int c = 0; c < d; ++c) {
            const float *row = x + (size_t)c * m;
            float *g = gradient + (size_t)c * m;
            const float p = row[j];
            float sum = 0.0f;
            for (int k = j + 1; k < m; ++k) {
                float t = inner * slope[k] * (row[k] - p);
                g[k] += t;
                sum += t;
            }
            g[j] -= sum;
        }
    }
    for (int i = 0; i < n; ++i) {
        squared(d, m, 0, x, y + i, n, s);
        total += outer * run(kind, precision, m, s, slope);
        for (int c = 0; c < d; ++c) {
            const float *row = x + (size_t)c * m;
            float *g = gradient + (size_t)c * m;
            const float p = y[(size_t)c * n + i];
            for (int k = 0; k < m; ++k) g[k] += outer * slope[k] * (row[k] - p);
        }
    }
    free(s);
    free(slope);
    return total;
}
