"""The namespace ``tapec.image``: images in other sizes, parts and colours, and how alike they are.

An image is ``[H, W, C]``, a batch of them ``[batch, H, W, C]``. All functions compose operations, so they have
derivatives of any order and may be compiled; the height and width of an image must be known then.
"""

from typing import TYPE_CHECKING

from tapec.absences.names import namespace
from tapec.image.chance import random_brightness as random_brightness
from tapec.image.chance import random_contrast as random_contrast
from tapec.image.chance import random_crop as random_crop
from tapec.image.chance import random_flip_left_right as random_flip_left_right
from tapec.image.chance import random_flip_up_down as random_flip_up_down
from tapec.image.chance import random_hue as random_hue
from tapec.image.chance import random_saturation as random_saturation
from tapec.image.chance import stateless_random_brightness as stateless_random_brightness
from tapec.image.chance import stateless_random_contrast as stateless_random_contrast
from tapec.image.chance import stateless_random_crop as stateless_random_crop
from tapec.image.chance import stateless_random_flip_left_right as stateless_random_flip_left_right
from tapec.image.chance import stateless_random_flip_up_down as stateless_random_flip_up_down
from tapec.image.chance import stateless_random_hue as stateless_random_hue
from tapec.image.chance import stateless_random_saturation as stateless_random_saturation
from tapec.image.colors import adjust_brightness as adjust_brightness
from tapec.image.colors import adjust_contrast as adjust_contrast
from tapec.image.colors import adjust_gamma as adjust_gamma
from tapec.image.colors import adjust_hue as adjust_hue
from tapec.image.colors import adjust_saturation as adjust_saturation
from tapec.image.colors import convert_image_dtype as convert_image_dtype
from tapec.image.colors import grayscale_to_rgb as grayscale_to_rgb
from tapec.image.colors import hsv_to_rgb as hsv_to_rgb
from tapec.image.colors import per_image_standardization as per_image_standardization
from tapec.image.colors import rgb_to_grayscale as rgb_to_grayscale
from tapec.image.colors import rgb_to_hsv as rgb_to_hsv
from tapec.image.colors import rgb_to_yiq as rgb_to_yiq
from tapec.image.colors import rgb_to_yuv as rgb_to_yuv
from tapec.image.colors import yiq_to_rgb as yiq_to_rgb
from tapec.image.colors import yuv_to_rgb as yuv_to_rgb
from tapec.image.cropping import central_crop as central_crop
from tapec.image.cropping import crop_to_bounding_box as crop_to_bounding_box
from tapec.image.cropping import flip_left_right as flip_left_right
from tapec.image.cropping import flip_up_down as flip_up_down
from tapec.image.cropping import pad_to_bounding_box as pad_to_bounding_box
from tapec.image.cropping import resize_with_crop_or_pad as resize_with_crop_or_pad
from tapec.image.cropping import rot90 as rot90
from tapec.image.cropping import transpose as transpose
from tapec.image.quality import image_gradients as image_gradients
from tapec.image.quality import psnr as psnr
from tapec.image.quality import sobel_edges as sobel_edges
from tapec.image.quality import ssim as ssim
from tapec.image.quality import ssim_multiscale as ssim_multiscale
from tapec.image.quality import total_variation as total_variation
from tapec.image.regions import crop_and_resize as crop_and_resize
from tapec.image.regions import extract_patches as extract_patches
from tapec.image.resizing import ResizeMethod as ResizeMethod
from tapec.image.resizing import resize as resize
from tapec.image.resizing import resize_with_pad as resize_with_pad

if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("image")
