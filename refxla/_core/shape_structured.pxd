# Contains only rules entered into the table of shape_rules.pxd.
