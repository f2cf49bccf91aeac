/* mkslide_containers.c - tiled TIFF files of other programs than Aperio's; see mkslide.h. */
#include "tests/mkslide.h"

#include <stdlib.h>
#include <string.h>

/* What must never reach a store, in every description. */
#define WHO "Patient^Doe^Jane, Case 4711, 12/29/09 09:59:15, b414003d-95c6-48b0, SS1302, 0815"

static double mpp_of(const struct maker *m)
{
    const double mpp = strtod(m->o->mpp, NULL);
    return mpp > 0 ? mpp : 0.5;
}

static char *describe_nothing(const struct maker *m)
{
    (void)m;
    return memory_copy(WHO);
}

static char *describe_ome(const struct maker *m)
{
    const struct opts *o = m->o;
    const int samples = o->form.gray && !o->planes ? 1 : 3;
    return memory_print(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
        "<OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\" Creator=\"" WHO "\">"
        "<Experimenter ID=\"Experimenter:0\" LastName=\"Patient^Doe^Jane\"/>"
        "<Image ID=\"Image:0\" Name=\"" WHO "\"><AcquisitionDate>12/29/09</AcquisitionDate>"
        "<Pixels ID=\"Pixels:0\" DimensionOrder=\"XYCZT\" Type=\"uint8\" SizeX=\"%u\" SizeY=\"%u\" "
        "SizeZ=\"1\" SizeC=\"%d\" SizeT=\"1\" PhysicalSizeX=\"%.6g\" "
        "PhysicalSizeXUnit=\"\xc2\xb5m\" "
        "PhysicalSizeY=\"%.6g\"><Channel ID=\"Channel:0:0\" SamplesPerPixel=\"%d\"/>"
        "<TiffData IFD=\"0\" PlaneCount=\"1\"/></Pixels></Image>"
        "<Image ID=\"Image:1\" Name=\"label image\"><Pixels SizeX=\"387\" SizeY=\"463\"/></Image>"
        "<Image ID=\"Image:2\" Name=\"macro image\"><Pixels SizeX=\"9\" "
        "SizeY=\"9\"/></Image></OME>",
        o->width, o->height, samples, mpp_of(m), mpp_of(m), samples);
}

#define SPACING                                                                                    \
    "<Attribute Name=\"DICOM_PIXEL_SPACING\" Group=\"0x0028\" Element=\"0x0030\" "                 \
    "PMSVR=\"IDoubleArray\">&quot;%.9g&quot; &quot;%.9g&quot;</Attribute>"

static char *describe_philips(const struct maker *m)
{
    char *levels = memory_copy("");
    const double mm = mpp_of(m) / 1000;
    for (uint32_t k = 0; k < m->o->n_levels; k++) {
        const double s = mm * (double)(1u << 2 * k);
        char *more = memory_print("%s<DataObject ObjectType=\"PixelDataRepresentation\">" SPACING
                                  "</DataObject>",
                                  levels, s, s);
        free(levels);
        levels = more;
    }
    char *all = memory_print(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" ?><DataObject ObjectType=\"DPUfsImport\">"
        "<Attribute Name=\"DICOM_MANUFACTURER\">PHILIPS</Attribute>"
        "<Attribute Name=\"DICOM_DEVICE_SERIAL_NUMBER\">SS1302</Attribute>"
        "<Attribute Name=\"DICOM_ACQUISITION_DATETIME\">12/29/09 09:59:15</Attribute>"
        "<Attribute Name=\"PIM_DP_UFS_BARCODE\">Patient^Doe^Jane Case 4711 0815</Attribute>"
        "<Attribute Name=\"PIM_DP_SCANNED_IMAGES\"><Array>"
        "<DataObject ObjectType=\"DPScannedImage\">"
        "<Attribute Name=\"PIM_DP_IMAGE_TYPE\">WSI</Attribute>" SPACING
        "<Attribute Name=\"PIIM_PIXEL_DATA_REPRESENTATION_SEQUENCE\"><Array>%s</Array></Attribute>"
        "</DataObject><DataObject ObjectType=\"DPScannedImage\">"
        "<Attribute Name=\"PIM_DP_IMAGE_TYPE\">LABELIMAGE</Attribute>"
        "<Attribute Name=\"PIM_DP_IMAGE_DATA\">UGF0aWVudF5Eb2U=</Attribute></DataObject>"
        "</Array></Attribute></DataObject>",
        mm, mm, levels);
    free(levels);
    return all;
}

static const struct container containers[] = {
    {.name = "aperio"},
    {.name = "generic", .describe = describe_nothing},
    {.name = "subifds", .describe = describe_nothing, .subs = true},
    {.name = "ome", .describe = describe_ome},
    {.name = "ome-subifds", .describe = describe_ome, .subs = true},
    {.name = "philips", .software = "Philips DP v1.0", .describe = describe_philips},
};

const struct container *container_find(const char *name)
{
    for (size_t k = 0; k < sizeof containers / sizeof *containers; k++)
        if (!strcmp(name, containers[k].name))
            return &containers[k];
    return NULL;
}
