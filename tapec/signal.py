"""The namespace ``tapec.signal``: Fourier and cosine transforms, frames and windows of signals."""

from typing import TYPE_CHECKING

from tapec.absences.names import namespace
from tapec.functions.signals.cosine import dct as dct
from tapec.functions.signals.cosine import idct as idct
from tapec.functions.signals.fourier import fft as fft
from tapec.functions.signals.fourier import fft2d as fft2d
from tapec.functions.signals.fourier import fft3d as fft3d
from tapec.functions.signals.fourier import fftnd as fftnd
from tapec.functions.signals.fourier import fftshift as fftshift
from tapec.functions.signals.fourier import ifft as ifft
from tapec.functions.signals.fourier import ifft2d as ifft2d
from tapec.functions.signals.fourier import ifft3d as ifft3d
from tapec.functions.signals.fourier import ifftnd as ifftnd
from tapec.functions.signals.fourier import ifftshift as ifftshift
from tapec.functions.signals.fourier import irfft as irfft
from tapec.functions.signals.fourier import irfft2d as irfft2d
from tapec.functions.signals.fourier import irfft3d as irfft3d
from tapec.functions.signals.fourier import irfftnd as irfftnd
from tapec.functions.signals.fourier import rfft as rfft
from tapec.functions.signals.fourier import rfft2d as rfft2d
from tapec.functions.signals.fourier import rfft3d as rfft3d
from tapec.functions.signals.fourier import rfftnd as rfftnd
from tapec.functions.signals.spectrograms import frame as frame
from tapec.functions.signals.spectrograms import inverse_mdct as inverse_mdct
from tapec.functions.signals.spectrograms import inverse_stft as inverse_stft
from tapec.functions.signals.spectrograms import inverse_stft_window_fn as inverse_stft_window_fn
from tapec.functions.signals.spectrograms import (
    linear_to_mel_weight_matrix as linear_to_mel_weight_matrix,
)
from tapec.functions.signals.spectrograms import mdct as mdct
from tapec.functions.signals.spectrograms import (
    mfccs_from_log_mel_spectrograms as mfccs_from_log_mel_spectrograms,
)
from tapec.functions.signals.spectrograms import overlap_and_add as overlap_and_add
from tapec.functions.signals.spectrograms import stft as stft
from tapec.functions.signals.windows import hamming_window as hamming_window
from tapec.functions.signals.windows import hann_window as hann_window
from tapec.functions.signals.windows import (
    kaiser_bessel_derived_window as kaiser_bessel_derived_window,
)
from tapec.functions.signals.windows import kaiser_window as kaiser_window
from tapec.functions.signals.windows import vorbis_window as vorbis_window

if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("signal")
