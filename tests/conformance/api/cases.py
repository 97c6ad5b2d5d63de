"""Calls of public functions, each an expression over ``tf`` and a few operands, in three kinds.

``record.py`` writes what TensorFlow gives for them; ``tests/test_values.py`` holds tapec against it. SMOOTH ones have
derivatives by their float operands; EXACT ones have none that is worth a test, or are not to be compiled in other
dtypes; EAGER ones have a result whose shape depends on values, so that compiling them is refused by name.
"""

import numpy as np

_rng = np.random.default_rng(5)


def _away(*shape):
    """Numbers away from 0, of both signs."""
    return (_rng.uniform(0.3, 1.7, shape) * _rng.choice([-1, 1], shape)).astype("f4")


OPERANDS = {
    "x": _away(2, 3),
    "y": _away(2, 3),
    "p": np.abs(_away(2, 3)),
    "q": np.abs(_away(2, 3)),
    "u": _rng.uniform(0.1, 0.9, (2, 3)).astype("f4"),
    "w": _rng.uniform(-0.8, 0.8, (2, 3)).astype("f4"),
    "v": _away(4),
    "m": _away(3, 3) + 3 * np.eye(3, dtype="f4"),
    "s": (lambda a: (a @ a.T + 2 * np.eye(3)).astype("f4"))(_away(3, 3)),
    "r": _away(3, 2),
    "t": _away(2, 3, 4),
    "im": _rng.uniform(0.05, 0.95, (2, 6, 5, 3)).astype("f4"),
    "jm": _rng.uniform(0.05, 0.95, (2, 6, 5, 3)).astype("f4"),
    "f": _away(2, 2, 3, 2),
    "seq": _away(2, 6, 2),
    "vol": _away(1, 3, 3, 3, 2),
    "i": np.array([[1, 0, 2], [2, 1, 0]], "i4"),
    "j": np.array([[3, 5, 2], [4, 1, 7]], "i4"),
    "b": np.array([[True, False, True], [False, False, True]]),
    "c": np.array([[True, True, False], [False, True, True]]),
    "z": (_away(2, 3) + 1j * _away(2, 3)).astype("c8"),
}

SMOOTH = """
tf.abs(x); tf.math.abs(x); tf.acos(w); tf.acosh(p + 1.0); tf.add(x, y); tf.add_n([x, y, p]); tf.asin(w); tf.asinh(x)
tf.atan(x); tf.atan2(x, y); tf.math.atan2(x, y); tf.atanh(w); tf.math.acos(w); tf.math.asin(w); tf.math.atan(x)
tf.broadcast_to(x, [2, 2, 3]); tf.cast(x, x.dtype); tf.clip_by_value(x, -0.5, 0.5); tf.clip_by_norm(x, 1.0)
tf.clip_by_norm(x, 1.0, axes=[1]); tf.clip_by_global_norm([x, y], 1.0); tf.concat([x, y], 0); tf.cos(x); tf.cosh(x)
tf.math.accumulate_n([x, y]); tf.math.add_n([x, y]); tf.math.cosh(x); tf.math.cumprod(x, 1); tf.cumsum(x, 1, exclusive=True)
tf.cumsum(x, reverse=True); tf.math.cumulative_logsumexp(x, 1); tf.math.cumulative_logsumexp(x, 1, reverse=True)
tf.math.digamma(p); tf.divide(x, y); tf.math.divide_no_nan(x, y); tf.ensure_shape(x, [2, None]); tf.math.erf(x)
tf.math.erfc(x); tf.math.erfinv(w); tf.exp(x); tf.expand_dims(x, 1); tf.math.expm1(x)
tf.einsum('ij,kj->ik', x, y); tf.einsum('ij->', x); tf.tensordot(x, y, [[1], [1]]); tf.fill([2], 3.0)
tf.gather(x, [1, 0, 1]); tf.gather(x, [2, 0], axis=1); tf.gather(x, i, batch_dims=1, axis=1)
tf.gather_nd(x, [[0, 1], [1, 2]]); tf.gather_nd(x, [[0, 5], [1, 2]], bad_indices_policy='IGNORE'); tf.identity(x)
tf.identity_n([x, y]); tf.math.lbeta(p); tf.math.lgamma(p); tf.linspace(x[0], y[0], 4); tf.math.log(p); tf.math.log1p(p)
tf.math.log_sigmoid(x); tf.math.log_softmax(x); tf.linalg.matmul(x, r); tf.matmul(x, y, transpose_b=True); tf.math.maximum(x, y)
tf.maximum(x, y); tf.meshgrid(x[0], y[1]); tf.minimum(x, y); tf.multiply(x, y); tf.math.multiply_no_nan(x, y); tf.math.ndtri(u)
tf.negative(x); tf.norm(x); tf.norm(x, 1, axis=1); tf.norm(x, np.inf, axis=0); tf.norm(x, axis=[0, 1], keepdims=True)
tf.pad(x, [[1, 0], [0, 2]]); tf.pad(x, [[1, 1], [0, 2]], 'REFLECT'); tf.pad(x, [[1, 1], [0, 2]], 'SYMMETRIC')
tf.math.polygamma(1.0, p); tf.math.polyval([x, y], p); tf.pow(p, y); tf.math.pow(p, y)
tf.realdiv(x, y); tf.math.reciprocal(x); tf.math.reciprocal_no_nan(x); tf.reduce_logsumexp(x, 1); tf.reduce_max(x, 1)
tf.reduce_mean(x, 0, keepdims=True); tf.reduce_min(x); tf.reduce_prod(x, 1); tf.math.reduce_std(x, 1); tf.reduce_sum(x, [0, 1])
tf.math.reduce_variance(x, 0); tf.math.reduce_euclidean_norm(x, 1); tf.repeat(x, 2, 0); tf.repeat(x, [1, 2], 0); tf.reshape(x, [3, -1])
tf.reverse(x, [1]); tf.reverse_sequence(t, [2, 3], seq_axis=1, batch_axis=0); tf.roll(x, 1, 1); tf.math.rsqrt(p); tf.scalar_mul(2.0, x)
tf.scatter_nd([[1], [3]], x, [4, 3]); tf.scatter_nd([[1], [9]], x, [4, 3], bad_indices_policy='IGNORE')
tf.math.sigmoid(x); tf.sigmoid(x); tf.sin(x); tf.sinh(x); tf.slice(x, [0, 1], [2, -1]); tf.math.softplus(x); tf.math.softsign(x); tf.sort(x)
tf.sort(x, 0, 'DESCENDING'); tf.split(x, 3, 1); tf.split(x, [1, 2], 1); tf.sqrt(p); tf.square(x); tf.math.squared_difference(x, y)
tf.squeeze(tf.reshape(x, [1, 2, 1, 3])); tf.stack([x, y], 1); tf.strided_slice(t, [0, 0, 1], [2, 3, 4], [1, 2, 1], shrink_axis_mask=1)
tf.strided_slice(t, [0, 1], [0, 3], begin_mask=1, end_mask=1); tf.strided_slice(t, [0, 0], [0, 2], ellipsis_mask=1)
tf.subtract(x, y); tf.tan(w); tf.tanh(x); tf.tensor_scatter_nd_add(x, [[0], [0]], y); tf.tensor_scatter_nd_sub(x, [[1]], y[:1])
tf.tensor_scatter_nd_update(x, [[1, 0], [0, 2]], v[:2]); tf.tensor_scatter_nd_max(x, [[0]], y[:1]); tf.tensor_scatter_nd_min(x, [[0]], y[:1])
tf.tile(x, [2, 1]); tf.math.top_k(x, 2); tf.transpose(t, [2, 0, 1]); tf.truediv(x, y); tf.truncatemod(x, 0.5); tf.tuple([x, y]); tf.unstack(x)
tf.where(b, x, y); tf.math.xdivy(x, y); tf.math.xlog1py(x, p); tf.math.xlogy(x, p); tf.math.igammac(p, q)
tf.math.unsorted_segment_sum(x, [1, 0], 3); tf.math.unsorted_segment_mean(x, [1, 1], 2); tf.math.unsorted_segment_max(x, [1, 0], 2)
tf.math.unsorted_segment_min(x, [1, 0], 2); tf.math.unsorted_segment_prod(x, [1, 1], 2); tf.math.unsorted_segment_sqrt_n(x, [1, 1], 2)
tf.math.mod(p, q); tf.math.scalar_mul(2.0, x)
tf.math.zeta(p + 1.5, q); tf.math.erfcinv(u); tf.math.special.spence(p); tf.math.special.expint(p); tf.math.bessel_i0(x); tf.math.bessel_i0e(x); tf.math.bessel_i1(x); tf.math.bessel_i1e(x)
tf.math.special.bessel_j0(x); tf.math.special.bessel_j1(x); tf.math.special.bessel_k0(p); tf.math.special.bessel_k0e(p); tf.math.special.bessel_k1(p); tf.math.special.bessel_k1e(p)
tf.math.special.bessel_y0(p); tf.math.special.bessel_y1(p); tf.math.special.dawsn(x); tf.math.special.fresnel_cos(x); tf.math.special.fresnel_sin(x); tf.math.igamma(p, q)
tf.math.approx_max_k(x, 2); tf.nn.approx_max_k(x, 2); tf.math.l2_normalize(x, 1)
tf.linalg.adjoint(m); tf.linalg.band_part(m, 1, 0); tf.linalg.cholesky(s); tf.linalg.cholesky_solve(tf.linalg.cholesky(s), r)
tf.linalg.cross(x, y); tf.linalg.det(m); tf.linalg.diag(x); tf.linalg.diag(x, k=1); tf.linalg.diag(m, k=(-1, 1)); tf.linalg.diag_part(m)
tf.linalg.diag_part(m, k=-1); tf.linalg.diag_part(t, k=(-1, 2), align='LEFT_LEFT'); tf.linalg.set_diag(m, v[:3]); tf.linalg.set_diag(t, x, k=1)
tf.linalg.eigvalsh(s); tf.linalg.einsum('ij->ji', m); tf.linalg.expm(w[:, :2]); tf.linalg.global_norm([x, y]); tf.linalg.inv(m); tf.linalg.l2_normalize(x, 1)
tf.linalg.logdet(s); tf.linalg.lstsq(m, r); tf.linalg.matmul(m, r); tf.linalg.matrix_transpose(m); tf.linalg.matvec(m, x[0]); tf.linalg.norm(m); tf.linalg.normalize(x)
tf.linalg.pinv(r); tf.linalg.slogdet(m); tf.linalg.solve(m, r); tf.linalg.svd(m, compute_uv=False); tf.linalg.tensordot(m, r, 1); tf.linalg.trace(m)
tf.linalg.triangular_solve(m, r); tf.linalg.tensor_diag(v); tf.linalg.tensor_diag_part(m)
tf.linalg.lu_solve(*tf.linalg.lu(m), r); tf.linalg.lu_reconstruct(*tf.linalg.lu(m)); tf.linalg.lu_matrix_inverse(*tf.linalg.lu(m)); tf.abs(tf.linalg.qr(m)[1]); tf.linalg.eigh(s)[0]; tf.linalg.sqrtm(s)
tf.linalg.tridiagonal_solve([v[:3], p[0] + 4.0, v[1:]], r, 'sequence'); tf.linalg.tridiagonal_matmul([v[:3], v[:3], v[1:]], r, 'sequence'); tf.linalg.eigh_tridiagonal(p[0], q[0, :2])
tf.linalg.banded_triangular_solve(tf.stack([p[0] + 2.0, y[0]]), r); tf.linalg.tensor_diag(v); tf.linalg.tensor_diag_part(m)
tf.signal.dct(x); tf.signal.idct(x); tf.signal.frame(v, 2, 1); tf.signal.overlap_and_add(x, 2); tf.math.real(tf.signal.rfft(x)); tf.abs(tf.signal.rfft2d(m)); tf.math.imag(tf.signal.rfft(v, [6]))
tf.abs(tf.signal.stft(seq[..., 0], 4, 2)); tf.signal.mdct(seq[..., 0], 4); tf.signal.inverse_mdct(x[:, :2]); tf.signal.mfccs_from_log_mel_spectrograms(x); tf.signal.fftshift(x); tf.signal.ifftshift(x)
tf.nn.avg_pool(im, 2, 2, 'VALID'); tf.nn.avg_pool1d(seq, 2, 1, 'SAME'); tf.nn.avg_pool2d(im, [2, 3], 1, 'SAME'); tf.nn.avg_pool3d(vol, 2, 1, 'VALID')
tf.nn.atrous_conv2d(im, f, 2, 'SAME'); tf.nn.atrous_conv2d_transpose(im[..., :2], f, [2, 8, 7, 3], 2, 'VALID'); tf.nn.conv_transpose(im[..., :2], f, [2, 12, 10, 3], 2)
tf.nn.batch_normalization(x, p[0], q[0], y[0], u[0], 0.1); tf.nn.batch_norm_with_global_normalization(im, p[0], q[0], y[0], u[0], 0.1, True); tf.nn.bias_add(x, y[0])
tf.nn.compute_average_loss(x[0]); tf.nn.conv1d(seq, f[0, :, :2], 2, 'SAME'); tf.nn.conv2d(im, f, [1, 2, 1, 1], 'SAME'); tf.nn.conv2d(im, f, 1, 'VALID', dilations=2)
tf.nn.conv3d(vol, tf.reshape(t[..., :2], [2, 1, 3, 2, 1]), [1] * 5, 'SAME'); tf.nn.convolution(im, f, 2, 'VALID'); tf.nn.conv1d_transpose(seq, f[0, :, :2], [2, 12, 2], 2)
tf.nn.conv2d_transpose(im[..., :2], f, [2, 12, 10, 3], 2); tf.nn.conv3d_transpose(vol, tf.reshape(t[..., :2], [2, 1, 3, 1, 2]), [1, 4, 3, 5, 1], 1, 'VALID'); tf.nn.crelu(x)
tf.nn.depth_to_space(tf.reshape(t, [1, 2, 3, 4]), 2); tf.nn.space_to_depth(im[:, :, :4], 2); tf.nn.depthwise_conv2d(im, f, [1, 1, 1, 1], 'VALID')
tf.nn.depthwise_conv2d_backprop_input([2, 6, 5, 3], f, tf.nn.depthwise_conv2d(jm, f, [1, 1, 1, 1], 'SAME'), [1, 1, 1, 1], 'SAME')
tf.nn.depthwise_conv2d_backprop_filter(im, [2, 2, 3, 2], tf.nn.depthwise_conv2d(jm, f, [1, 2, 2, 1], 'VALID'), [1, 2, 2, 1], 'VALID')
tf.nn.separable_conv2d(im, f, tf.reshape(t[0], [1, 1, 6, 2]), [1, 1, 1, 1], 'SAME'); tf.nn.dilation2d(im, f[..., 0], [1, 1, 2, 1], 'SAME', 'NHWC', [1, 2, 1, 1])
tf.nn.erosion2d(im, f[..., 0], [1, 1, 1, 1], 'VALID', 'NHWC', [1, 1, 1, 1]); tf.nn.elu(x); tf.nn.embedding_lookup(x, [1, 0, 1]); tf.nn.gelu(x); tf.nn.gelu(x, True)
tf.nn.l2_loss(x); tf.nn.l2_normalize(x, 0); tf.nn.leaky_relu(x); tf.nn.local_response_normalization(im, 1, 1.5, 0.5, 0.7); tf.nn.lrn(im, 1)
tf.nn.log_poisson_loss(p, x); tf.nn.log_poisson_loss(p + 1.0, x, True); tf.nn.log_softmax(x); tf.nn.max_pool(im, 2, 2, 'VALID'); tf.nn.max_pool1d(seq, 2, 1, 'SAME')
tf.nn.max_pool2d(im, 3, 2, 'SAME'); tf.nn.max_pool3d(vol, 2, 1, 'VALID'); tf.nn.moments(x, [0]); tf.nn.normalize_moments(2.0, x, p, 0.5); tf.nn.pool(im, [2, 2], 'AVG', [2, 2], 'SAME')
tf.nn.pool(seq, [2], 'MAX'); tf.nn.relu(x); tf.nn.relu6(x * 5.0); tf.nn.scale_regularization_loss(x); tf.nn.selu(x); tf.nn.sigmoid(x); tf.nn.silu(x); tf.nn.swish(x)
tf.nn.sigmoid_cross_entropy_with_logits(u, x); tf.nn.softmax(x); tf.nn.softmax(x, 0); tf.nn.softmax_cross_entropy_with_logits(u, x); tf.nn.softplus(x); tf.nn.softsign(x)
tf.nn.sparse_softmax_cross_entropy_with_logits([1, 2], x); tf.nn.sufficient_statistics(x, [0], 0.5)[:3]; tf.nn.tanh(x); tf.nn.top_k(x, 2); tf.nn.weighted_cross_entropy_with_logits(u, x, 2.0)
tf.nn.weighted_moments(x, [0], p); tf.nn.space_to_batch(im[:, :, :4], [2, 2], [[0, 0], [1, 1]]); tf.space_to_batch(im, [3, 5], [[0, 0], [0, 0]])
tf.batch_to_space(tf.reshape(t, [4, 1, 2, 3]), [2, 2], [[0, 1], [1, 0]]); tf.histogram_fixed_width_bins([0.1, 0.7], [0.0, 1.0], 5); tf.math.segment_sum(x, [0, 1])
tf.math.segment_max(x, [0, 0]); tf.math.segment_mean(x, [0, 0]); tf.math.segment_min(x, [0, 0]); tf.math.segment_prod(x, [0, 0])
tf.image.total_variation(tf.constant(im)); tf.image.image_gradients(tf.constant(im)); tf.image.sobel_edges(tf.constant(im))
tf.image.flip_left_right(im); tf.image.flip_up_down(im[0]); tf.image.transpose(im); tf.image.rot90(im, 3); tf.image.central_crop(im, 0.5)
tf.image.crop_to_bounding_box(im, 1, 2, 3, 2); tf.image.pad_to_bounding_box(im, 1, 2, 8, 9); tf.image.resize_with_crop_or_pad(im, 4, 8)
tf.image.adjust_brightness(im, 0.1); tf.image.adjust_contrast(im, 1.5); tf.image.adjust_gamma(im, 0.7, 1.2); tf.image.rgb_to_grayscale(im)
tf.image.grayscale_to_rgb(tf.constant(im)[..., :1]); tf.image.rgb_to_hsv(im); tf.image.hsv_to_rgb(im); tf.image.rgb_to_yiq(im); tf.image.yiq_to_rgb(im); tf.image.rgb_to_yuv(im)
tf.image.yuv_to_rgb(im); tf.image.extract_patches(im, [1, 2, 2, 1], [1, 2, 1, 1], [1, 1, 2, 1], 'SAME')
"""

EXACT = """
tf.bitcast(x, 'int32'); tf.math.nextafter(x, y); tf.argmax(x, 1); tf.argmin(x); tf.math.argmax(x); tf.math.argmin(x, 1); tf.argsort(x); tf.argsort(x, direction='DESCENDING'); tf.math.ceil(x); tf.floor(x); tf.math.floor(x)
tf.round(x); tf.math.rint(x); tf.math.round(x); tf.sign(x); tf.math.sign(x); tf.math.floordiv(j, i + 1); tf.math.floordiv(x, y); tf.math.floormod(j, i + 1); tf.truncatediv(j - 4, i + 1); tf.truncatemod(j - 4, 3)
tf.equal(i, j); tf.not_equal(i, j); tf.greater(x, y); tf.greater_equal(i, j); tf.less(x, y); tf.less_equal(i, j); tf.math.equal(x, y); tf.logical_and(b, c); tf.logical_or(b, c)
tf.logical_not(b); tf.math.logical_xor(b, c); tf.math.logical_and(b, c); tf.reduce_all(b, 1); tf.reduce_any(b, 0); tf.math.count_nonzero(i, 1); tf.math.is_finite(x); tf.math.is_inf(x); tf.math.is_nan(x)
tf.constant([1.5, 2.0]); tf.convert_to_tensor([[1, 2]]); tf.eye(2, 3, batch_shape=[2]); tf.zeros([2]); tf.ones([2], 'int32'); tf.range(2, 9, 3); tf.one_hot(i, 3); tf.one_hot([0, 1], 2, 5.0, -1.0, 0)
tf.shape(t); tf.shape_n([x, v]); tf.size(t); tf.rank(t); tf.sequence_mask([1, 3], 4); tf.saturate_cast(x * 200.0, 'uint8'); tf.cast(x, 'int32'); tf.dtypes.cast(b, 'float64'); tf.dtypes.saturate_cast(j * 100, 'int8')
tf.searchsorted([1.0, 3.0, 5.0], [0.5, 3.0, 9.0]); tf.searchsorted([1.0, 3.0, 5.0], [3.0], side='right'); tf.math.confusion_matrix([0, 1, 1], [1, 1, 0], 2); tf.unravel_index([7, 3], [3, 4])
tf.broadcast_dynamic_shape([2, 1], [3]); tf.required_space_to_batch_paddings([5, 7], [2, 3]); tf.math.invert_permutation([2, 0, 1]); tf.math.in_top_k([1, 0], x, 2); tf.nn.in_top_k([1, 0], x, 1)
tf.math.is_non_decreasing([1, 1, 2]); tf.math.is_strictly_increasing([1, 1, 2]); tf.math.zero_fraction(i); tf.nn.zero_fraction(i); tf.histogram_fixed_width([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], 5)
tf.math.bincount([1, 1, 5], minlength=8, maxlength=8); tf.math.bincount([1, 1, 5], minlength=4, maxlength=4, weights=[1.0, 2.0, 3.0]); tf.math.bincount(i, minlength=3, maxlength=3, axis=-1, binary_output=True)
tf.nn.max_pool_with_argmax(im, 3, 2, 'SAME'); tf.nn.max_pool_with_argmax(im, 2, 2, 'VALID', include_batch_in_index=True); tf.bitwise.bitwise_and(i, j); tf.bitwise.bitwise_or(i, j); tf.bitwise.bitwise_xor(i, j)
tf.bitwise.invert(i); tf.bitwise.left_shift(j, i); tf.bitwise.right_shift(-j, i); tf.linalg.lu(m); tf.complex(x, y); tf.linalg.matrix_rank(m); tf.signal.fft(z); tf.signal.ifft(z); tf.signal.fft2d(z); tf.signal.ifft2d(z); tf.signal.irfft(z); tf.signal.irfft2d(z); tf.signal.rfft3d(t); tf.signal.fft3d(tf.cast(t, z.dtype)); tf.signal.irfft3d(tf.cast(t, z.dtype)); tf.signal.ifft3d(tf.cast(t, z.dtype))
tf.signal.hann_window(5); tf.signal.hamming_window(6); tf.signal.kaiser_window(5); tf.signal.kaiser_bessel_derived_window(6); tf.signal.vorbis_window(6); tf.signal.linear_to_mel_weight_matrix(4, 9); tf.signal.inverse_stft(tf.signal.stft(seq[..., 0], 4, 2), 4, 2); tf.stop_gradient(x)
tf.math.real(z); tf.math.imag(z); tf.math.conj(z); tf.math.angle(z); tf.abs(z)
tf.math.lgamma(x); tf.zeros_like(x); tf.ones_like(x); tf.math.betainc(p, q, u); tf.nn.log_softmax([[1000.0, -1000.0]]); tf.math.reduce_logsumexp([1000.0, 1000.0])
tf.image.resize(im, [4, 9]); tf.image.resize(im, [9, 3], 'bicubic'); tf.image.resize(im, [4, 7], 'nearest'); tf.image.resize(im, [4, 7], 'area'); tf.image.resize(im, [3, 7], 'lanczos3', antialias=True)
tf.image.resize(im, [9, 9], 'lanczos5'); tf.image.resize(im, [3, 3], 'gaussian', antialias=True); tf.image.resize(im, [6, 5], 'mitchellcubic'); tf.image.resize(im, [3, 3], antialias=True)
tf.image.resize(im, [12, 12], preserve_aspect_ratio=True); tf.image.resize_with_pad(im, 8, 4); tf.image.adjust_hue(im, 0.3); tf.image.adjust_saturation(im, 1.4); tf.image.per_image_standardization(im)
tf.image.convert_image_dtype(im, 'uint8'); tf.image.psnr(im, jm, 1.0); tf.image.ssim(im, jm, 1.0, filter_size=4); tf.image.ssim_multiscale(im, jm, 1.0, (0.4, 0.6), filter_size=2)
tf.image.crop_and_resize(im, [[0.1, -0.2, 0.8, 1.1]], [1], [3, 4]); tf.image.crop_and_resize(im, [[0.9, 0.2, 0.1, 0.7]], [0], [2, 2], 'nearest', 0.5)
tf.broadcast_static_shape(tf.TensorShape([2, 1]), tf.TensorShape([3])).as_list(); tf.strided_slice(i, [0, 0], [2, 1], new_axis_mask=1)
"""

EAGER = """
tf.sequence_mask(j); tf.unique([1, 2, 1, 5]); tf.unique_with_counts([3, 2, 3]); tf.boolean_mask(x, b); tf.where(b); tf.dynamic_partition(v, [0, 1, 0, 1], 2)
tf.dynamic_stitch([[0, 2], [1, 3]], [[1.0, 2.0], [3.0, 4.0]]); tf.dynamic_stitch([1, [0, 1]], [[9.0, 9.0], [[1.0, 1.0], [2.0, 2.0]]]); tf.math.bincount([1, 1, 5])
tf.math.bincount([1, 1, 5], maxlength=3); tf.math.bincount([1, 1], minlength=4)
"""


def split(text):
    """The expressions of a kind."""
    return [e.strip() for line in text.strip().splitlines() for e in line.split("; ")]


KINDS = {"smooth": split(SMOOTH), "exact": split(EXACT), "eager": split(EAGER)}


def leaves(result):
    """Arrays of a result, in order."""
    if isinstance(result, (list, tuple)):
        return [leaf for part in result for leaf in leaves(part)]
    return [np.asarray(result.numpy() if hasattr(result, "numpy") else result)]
