"""Faults planted by seed beside a healthy twin: does an instrument name the place, and say nothing of the twin?"""
