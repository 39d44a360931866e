"""VAEs with and without a symmetry model (Allingham et al. 2024, section 4.2).

VAE sees images as they are. AugVAE is ``VAE.fit(images, augment=symmetry.augment)``: its images are
drawn anew from a symmetry model. InvVAE sees prototypes only.
"""

from symmetries.learners.vae.config import VAEConfig
from symmetries.learners.vae.inv_vae import InvVAE
from symmetries.learners.vae.model import VAE
from symmetries.learners.vae.symmetry_like import SymmetryLike

__all__ = ["VAE", "InvVAE", "SymmetryLike", "VAEConfig"]
