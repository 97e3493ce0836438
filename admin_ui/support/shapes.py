"""Shapes of the support bundle's call."""

from rest_framework import serializers as s


class SupportBundleRequest(s.Serializer[object]):
    hash_names = s.BooleanField(
        required=False,
        default=False,
        help_text="replace names of tenants, topics and the like by hashes",
    )
