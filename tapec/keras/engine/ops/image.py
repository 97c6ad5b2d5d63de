"""Keras' operations of images; each stands in the module of its kind."""

from tapec.keras.engine.pictures import gaussian_blur as gaussian_blur
from tapec.keras.engine.pictures import hsv_to_rgb as hsv_to_rgb
from tapec.keras.engine.pictures import resize as resize
from tapec.keras.engine.pictures import rgb_to_grayscale as rgb_to_grayscale
from tapec.keras.engine.pictures import rgb_to_hsv as rgb_to_hsv
from tapec.keras.engine.pictures import scale_and_translate as scale_and_translate
from tapec.keras.engine.pictures import sobel_edges as sobel_edges
from tapec.keras.engine.warping import affine_transform as affine_transform
from tapec.keras.engine.warping import compute_homography_matrix as compute_homography_matrix
from tapec.keras.engine.warping import elastic_transform as elastic_transform
from tapec.keras.engine.warping import map_coordinates as map_coordinates
from tapec.keras.engine.warping import perspective_transform as perspective_transform
