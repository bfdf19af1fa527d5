"""Names the packages: each folder with an __init__.py under the five floors, tests apart, which are not shipped.

All else is in pyproject.toml. Its own package search cannot map a folder to another import name, hence this file.
"""

from setuptools import find_packages, setup

FLOORS = ("oracle", "reference_impl", "cuda_impl", "property_tests", "reports")


def packages_of(floor: str) -> list[str]:
    """The floor and its subpackages, by the names that they are installed under."""
    below = find_packages(floor, exclude=["tests", "tests.*", "*.tests", "*.tests.*"])
    return [f"frontier_oracle.{floor}", *(f"frontier_oracle.{floor}.{name}" for name in below)]


setup(packages=[package for floor in FLOORS for package in packages_of(floor)])
